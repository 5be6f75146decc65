"""Judges whether a Cox model's loss compares each event with those still at risk."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.risk_sets import RiskSets

_HELP = "sort scores, times and events by time, longest first, before the cumulative sum"


def check(seen: RiskSets) -> Verdict:
    if seen.evaluated not in (None, seen.flag):
        return _of_censored(seen)
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


def _of_censored(seen: RiskSets) -> Verdict:
    message = (
        f"the partial likelihood takes samples whose `{seen.event}` is {seen.flag:d} for events, and the evaluation "
        f"those whose `{seen.event}` is {seen.evaluated:d}: one of them counts what was censored"
    )
    help_ = "an event is a failure that was seen: check the sign of the flag where the loss multiplies by it"
    finding = Finding(message, seen.place, help=help_)
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=seen.samples)
