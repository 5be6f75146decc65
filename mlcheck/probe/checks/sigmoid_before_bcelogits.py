"""Judges what enters binary_cross_entropy_with_logits: it applies the sigmoid itself."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.loss_inputs import LossInput, LossInputs


def check(inputs: LossInputs) -> Verdict:
    calls = inputs.of("binary_cross_entropy_with_logits")
    if not calls:
        return Verdict(Outcome.SKIP, reason="no binary_cross_entropy_with_logits was computed in the training steps")
    faults = tuple(_fault(call) for call in calls if call.made_by in ("sigmoid", "softmax"))
    if faults:
        return Verdict(Outcome.FAIL, faults[0].message, findings=faults, looked_at=len(calls))
    low, high = min(call.low for call in calls), max(call.high for call in calls)
    return Verdict(
        Outcome.PASS,
        f"no sigmoid before binary_cross_entropy_with_logits: its inputs range from {low:.3g} to {high:.3g}",
        looked_at=len(calls),
    )


def _fault(call: LossInput) -> Finding:
    return Finding(
        f"the input of binary_cross_entropy_with_logits comes from {call.made_by}: the predicted probability "
        "stays between 0.5 and 0.73",
        call.place,
        help="give it the logits, or use binary_cross_entropy on the probabilities",
    )
