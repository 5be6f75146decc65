"""Judges whether the framework knows every weight that is trained."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.ranks.wrapped import WrappedWeights

_HELP = "make it part of a module that goes through wrap_model(), also where it belongs to the loss"


def check(seen: WrappedWeights) -> Verdict:
    if not seen.outside:
        summary = f"all {seen.trained} trained parameters belong to wrapped models"
        return Verdict(Outcome.PASS, summary, looked_at=seen.trained)
    count = f"{len(seen.outside)} of {seen.trained} trained parameters belong to no wrapped model"
    message = f"{count} (`{seen.outside[0]}`): no checkpoint holds them, and each rank trains its own copy"
    return Verdict(Outcome.FAIL, message, findings=(Finding(message, seen.place, help=_HELP),), looked_at=seen.trained)
