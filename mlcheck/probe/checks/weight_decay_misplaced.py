"""Judges whether an optimizer moves parameters whose gradients are zeroed before each of its steps: by their decay."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.training.parameter_story import ENOUGH_UPDATES, ParameterStory
from mlcheck.probe.measure.training.training_steps import TrainingSteps


def check(steps: TrainingSteps) -> Verdict:
    held = [story for story in steps.parameters if story.trace.steps >= ENOUGH_UPDATES]
    if not held or not any(story.trace.applied for story in held):
        return Verdict(Outcome.SKIP, reason="no optimizer applied a gradient often enough")
    emptied = [story for story in held if _is_emptied(story)]
    if not emptied:
        return Verdict(Outcome.SKIP, reason="no parameter is held still by zeroing its gradients")
    moved = [story for story in emptied if story.trace.changed]
    if not moved:
        told = f"{plural(len(emptied), 'parameter')} whose gradients are zeroed stay as they are"
        return Verdict(Outcome.PASS, told, looked_at=len(emptied))
    name = moved[0].optimizers[0] if moved[0].optimizers else "the optimizer"
    message = (
        f"{listed([story.name for story in moved])} have their gradients zeroed before every step and move all the "
        f"same: `{name}` decays them"
    )
    finding = Finding(
        message,
        steps.step_places.get(name, Location()),
        help="freeze them with `requires_grad_(False)`, or give their group `weight_decay=0.0`",
        numbers={"parameters": float(len(moved))},
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=len(emptied))


def _is_emptied(story: ParameterStory) -> bool:
    """Whether a gradient came before every step, and every step found it cleared."""
    return bool(story.trace.nonzero) and story.trace.lost == story.trace.steps and not story.trace.applied
