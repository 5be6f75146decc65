"""Judges whether gradients that backward had filled were gone when the optimizer stepped."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.training_steps import TrainingSteps


def check(steps: TrainingSteps) -> Verdict:
    if not steps.owns_loop:
        return Verdict(Outcome.SKIP, reason="the loop is mlcheck's own: your program has none to look at")
    if steps.without_optimizer:
        return Verdict(Outcome.SKIP, reason="the program changes its parameters itself: there is no optimizer's step")
    updates = sum(steps.updates.values())
    if not updates:
        return Verdict(Outcome.INCONCLUSIVE, reason=f"no optimizer stepped in {plural(steps.steps, 'training step')}")
    held = [story for story in steps.parameters if story.trace.steps]
    lost = [story for story in held if story.trace.lost and story.trace.lost == story.trace.steps]
    if not lost or len(lost) < len([story for story in held if story.trace.nonzero]):
        return Verdict(
            Outcome.PASS,
            f"the gradients that backward filled were there at each of {plural(updates, 'optimizer step')}",
            looked_at=updates,
        )
    name = lost[0].optimizers[0] if lost[0].optimizers else "the optimizer"
    message = (
        f"gradients are cleared between backward and `{name}.step()`: every one of {plural(updates, 'step')} found none"
    )
    place = steps.step_places.get(name, Location())
    finding = Finding(message, place, help="clear them before backward or after the step, not in between")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=updates)
