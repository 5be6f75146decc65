"""Judges whether a sample is read from memory that the read before has changed."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.data.overwritten import Overwriting, Overwritten
from mlcheck.probe.measure.names import part_of


def check(seen: Overwritten) -> Verdict:
    if not seen.found:
        told = f"{plural(seen.looked_at, 'sample')} read again with the same random numbers: stored samples stay"
        return Verdict(Outcome.PASS, told, looked_at=seen.looked_at)
    firsts = {one.split: one for one in reversed(seen.found)}
    findings = tuple(_fault(one) for one in reversed(firsts.values()))
    return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=seen.looked_at)


def _fault(one: Overwriting) -> Finding:
    return Finding(
        f"reading a {one.split} sample changes it where it is stored: with the same random numbers "
        f"{part_of('sample', one.part)} of sample {one.index} differs by up to {one.moved:.3g} at the next read, and "
        "by nothing once its memory is put back",
        one.place,
        help="work on a copy: `x = x * scale` instead of `x *= scale`, or `clone()` (of an array `copy()`) first",
    )
