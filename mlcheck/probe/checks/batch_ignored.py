"""Judges whether training goes by the batches that it is given."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.other_batches import OtherBatches


def check(seen: OtherBatches) -> Verdict:
    steps = len(seen.losses)
    if not seen.ignores:
        told = f"from one state, other batches make other losses ({seen.losses[-1]:.4g} and {seen.others[-1]:.4g})"
        return Verdict(Outcome.PASS, told, looked_at=2 * steps)
    if not seen.again and not seen.rich:
        reason = "other batches make the same losses, but hold whole numbers only: a step may draw its own points"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason)
    kept = "; the model is given the first batch again" if seen.again else ""
    message = (
        f"the training step ignores its batch: {plural(steps, 'step')} on other batches have the very same losses "
        f"({', '.join(f'{loss:.4g}' for loss in seen.losses)}), bit for bit{kept}"
    )
    help_ = "find out where the step takes its inputs from: a kept batch, or a loader that restarts in each step"
    finding = Finding(message, seen.place, help=help_)
    outcome = Outcome.FAIL if seen.again else Outcome.WARN
    return Verdict(outcome, message, findings=(finding,), looked_at=2 * steps)
