"""Judges whether batch normalisation sees more than one sample at a time."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.norm_rows import NormRows
from mlcheck.probe.measure.names import listed


def check(seen: NormRows) -> Verdict:
    if seen.single:
        return _constant(seen)
    alone = [name for name, rows in seen.rows if rows == 1]
    if not alone:
        least = min(rows for _, rows in seen.rows)
        told = f"{plural(len(seen.rows), 'batch norm')}, with at least {plural(least, 'sample')} at a time"
        return Verdict(Outcome.PASS, told, looked_at=len(seen.rows))
    message = (
        f"{listed(alone)} saw one sample at a time in {plural(seen.steps, 'training step')}: each is normalised "
        "by itself in "
        "training, by running statistics in evaluation"
    )
    help_ = "a larger batch, or a norm that looks at one sample in both modes: GroupNorm, InstanceNorm, LayerNorm"
    finding = Finding(message, Location(symbol=alone[0].partition(" ")[0]), help=help_)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=len(seen.rows))


def _constant(seen: NormRows) -> Verdict:
    message = (
        f"{listed(list(seen.single))} normalises every number by itself: what is left of it is 0, and its output is "
        "its bias, whatever comes in, and nothing before it learns"
    )
    help_ = "fewer groups than channels where there is one position (GroupNorm), or a norm over more than one feature"
    finding = Finding(message, Location(symbol=seen.single[0].partition(" ")[0]), help=help_)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=seen.steps)
