"""Optimizers that never step although their parameters get gradients in step after step."""

from __future__ import annotations

from mlcheck.core.finding import Finding, Location
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.training.parameter_story import ParameterStory
from mlcheck.probe.measure.training.training_steps import MANY_STEPS, TrainingSteps


def idle_optimizers(steps: TrainingSteps) -> dict[str, list[ParameterStory]]:
    """Those beside others that do step, with the parameters that they alone hold."""
    if steps.steps < MANY_STEPS or max(steps.updates.values(), default=0) < MANY_STEPS // 2:
        return {}
    found = {}
    for name in (name for name, count in steps.updates.items() if not count):
        held = (s for s in steps.parameters if s.optimizers == (name,) and not s.changed)
        if mine := [story for story in held if story.trace.nonzero >= MANY_STEPS // 2]:
            found[name] = mine
    return found


def idleness(steps: TrainingSteps) -> tuple[Finding, ...]:
    others = ", ".join(f"`{other}` {count}" for other, count in steps.updates.items() if count)
    return tuple(
        Finding(
            f"the optimizer `{name}` never stepped in {steps.steps} training steps ({others} times): "
            f"{listed([story.name for story in mine])} got gradients and did not change",
            Location(symbol=mine[0].name),
            help=f"call `{name}.step()` too",
        )
        for name, mine in idle_optimizers(steps).items()
    )
