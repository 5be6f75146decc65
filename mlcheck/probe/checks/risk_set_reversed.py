"""Judges whether a Cox model's loss compares each event with those still at risk."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.risk_sets import RiskSets

_HELP = "sort scores, times and events by time, longest first, before the cumulative sum"


def check(seen: RiskSets) -> Verdict:
    if seen.among == "later":
        told = f"`{seen.event}` compares each event with those whose `{seen.time}` is no shorter"
        return Verdict(Outcome.PASS, told, looked_at=seen.samples)
    among = (
        f"those whose `{seen.time}` was shorter, who were not at risk any more"
        if seen.among == "earlier"
        else f"those on one side of it in the batch, which is not sorted by `{seen.time}`"
    )
    message = (
        f"the partial likelihood compares each event with {among}: the derivatives by the scores of "
        f"{seen.censored} censored samples among {seen.samples} change just where an event lies between them in that "
        "order"
    )
    return Verdict(Outcome.FAIL, message, findings=(Finding(message, seen.place, help=_HELP),), looked_at=seen.samples)
