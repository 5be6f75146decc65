"""Judges whether training steps ran with the model in evaluation mode."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training.training_modes import TrainingModes

_HELP = "call model.train() where a training step or epoch begins; to freeze batch norm alone, eval() those layers only"


def check(modes: TrainingModes) -> Verdict:
    if not modes.owns_loop:
        return Verdict(Outcome.SKIP, reason="the loop is mlcheck's own: it sets the modes")
    if not modes.modal:
        return Verdict(Outcome.SKIP, reason="no module that ran depends on the mode (no dropout, no batch norm)")
    when = "" if modes.at_once else " after an evaluation"
    findings = tuple(
        Finding(
            f"`{name}` is trained in evaluation mode{when}: dropout is off and batch norm uses stale statistics",
            place,
            help=_HELP,
        )
        for name, place in modes.at_once or modes.after_evaluation
    )
    if findings:
        return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=modes.modal)
    if modes.left_in_eval and not modes.framework:
        left = ", ".join(f"`{name}`" for name in modes.left_in_eval)
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"the evaluation leaves {left} in evaluation mode; whether your loop calls train() again was not "
            "seen, as only its steps were run",
        )
    after = " and again after an evaluation" if modes.evaluated else ""
    return Verdict(Outcome.PASS, f"the models were in training mode in a training step{after}", looked_at=modes.modal)
