"""Judges whether gradients that several batches fill for one update are still there when it comes."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.training.parameter_story import ParameterStory
from mlcheck.probe.measure.training.training_steps import TrainingSteps


def check(steps: TrainingSteps) -> Verdict:
    if not steps.owns_loop:
        return Verdict(Outcome.SKIP, reason="the loop is mlcheck's own: your program has none to look at")
    rare = {name: count for name, count in steps.updates.items() if 0 < count <= steps.steps // 2}
    if not rare:
        return Verdict(Outcome.SKIP, reason="every batch has its own update")
    for name, updates in rare.items():
        held = [story for story in steps.parameters if name in story.optimizers and story.trace.nonzero]
        if any(not math.isfinite(story.trace.largest) for story in held):
            raise inconclusive("a gradient was not finite, and a scaler leaves out such a step")
        if held and all(_is_thrown_away(story, updates) for story in held):
            return _fault(name, updates, steps)
    kept = ", ".join(f"`{name}`" for name in rare)
    told = f"the gradients of {steps.steps} batches are added up, and none is cleared before {kept} steps"
    return Verdict(Outcome.PASS, told, looked_at=steps.steps)


def _is_thrown_away(story: ParameterStory, updates: int) -> bool:
    """Every arrival but the last before each update was cleared unused."""
    return story.trace.discarded >= max(1, story.trace.arrivals - updates - 1)


def _fault(name: str, updates: int, steps: TrainingSteps) -> Verdict:
    message = (
        f"gradients are cleared at every batch and `{name}` steps {updates} times in {steps.steps}: each update has "
        "the gradient of its last batch alone, those of the others are lost"
    )
    place = steps.step_places.get(name, Location())
    finding = Finding(message, place, help="clear the gradients where the optimizer steps, behind the same condition")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=steps.steps)
