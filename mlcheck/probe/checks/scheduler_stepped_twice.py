"""Judges whether a scheduler that the framework steps is stepped by the program as well."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training.contract import Contract


def check(seen: Contract) -> Verdict:
    if not seen.scheduled:
        return Verdict(Outcome.SKIP, reason="no scheduler is given to the framework")
    if not seen.schedulers:
        return Verdict(Outcome.PASS, "no scheduler that the framework steps is stepped by hand", looked_at=seen.steps)
    findings = tuple(
        Finding(
            f"`{name}` is stepped here and by the framework: the learning rate runs ahead",
            place,
            help="wrap it with LRScheduler.StepMode.MANUAL_STEP, or leave the steps to the framework",
        )
        for name, place in seen.schedulers.items()
    )
    return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=seen.steps)
