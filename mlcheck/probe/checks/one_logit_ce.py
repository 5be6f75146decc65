"""Judges how many classes cross_entropy chooses among: one is always certain."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.loss_inputs import LossInput, LossInputs


def check(inputs: LossInputs) -> Verdict:
    calls = inputs.of("cross_entropy")
    if not calls:
        return Verdict(Outcome.SKIP, reason="no cross_entropy was computed in the training steps")
    faults = tuple(_fault(call) for call in calls if call.classes == 1)
    if faults:
        return Verdict(Outcome.FAIL, faults[0].message, findings=faults, looked_at=len(calls))
    fewest = plural(min(call.classes for call in calls), "class")
    return Verdict(Outcome.PASS, f"cross_entropy chooses among {fewest}", looked_at=len(calls))


def _fault(call: LossInput) -> Finding:
    return Finding(
        "cross_entropy gets one score a sample: a single class is always certain, so the loss is 0 and every gradient "
        "is 0, whatever the model says",
        call.place,
        help="give the last layer an output for each class; for two classes one score with "
        "binary_cross_entropy_with_logits, for a number mse_loss",
    )
