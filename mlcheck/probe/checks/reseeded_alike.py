"""Judges whether random numbers go on from sample to sample and from step to step."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.reseeding import Reseeding
from mlcheck.probe.measure.names import listed


def check(seen: Reseeding) -> Verdict:
    found = [(seen.samples, "reading a sample"), (seen.steps, "a training step")]
    findings = tuple(_fault(names, when) for names, when in found if names)
    if findings:
        return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=seen.looked_at)
    return Verdict(Outcome.PASS, "random numbers go on after every sample and step", looked_at=seen.looked_at)


def _fault(names: tuple[str, ...], when: str) -> Finding:
    return Finding(
        f"{when} sets random numbers back to the same place each time, by {listed(list(names))} or its like: "
        "augmentation, dropout and shuffling repeat themselves",
        help="seed once, where the program begins; for numbers that belong to a sample use a generator of its own",
    )
