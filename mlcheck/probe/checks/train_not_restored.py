"""Judges whether training steps ran with the model in evaluation mode."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training_steps import TrainingSteps


def check(steps: TrainingSteps) -> Verdict:
    if not steps.owns_loop:
        return Verdict(Outcome.SKIP, reason="the loop is mlcheck's own: it sets the modes")
    if not steps.modal_modules:
        return Verdict(Outcome.SKIP, reason="no module that ran depends on the mode (no dropout, no batch norm)")
    findings = tuple(
        Finding(
            f"`{name}` is trained in evaluation mode: dropout is off and batch norm uses stale statistics",
            place,
            help="call model.train() before the training step; to freeze batch norm alone, call eval() on those layers",
        )
        for name, place in steps.models_in_eval
    )
    if findings:
        return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=steps.steps)
    return Verdict(
        Outcome.PASS, f"models were in training mode in all {steps.steps} training steps", looked_at=steps.steps
    )
