"""Judges parameters that got gradients, were stepped, and are bit for bit what they were."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.training.idle_optimizers import idleness
from mlcheck.probe.measure.training.parameter_story import ParameterStory
from mlcheck.probe.measure.training.training_steps import MANY_STEPS, TrainingSteps

_ROUNDING = 1e-6
_SINGLE = 4  # bytes


def check(steps: TrainingSteps) -> Verdict:
    if steps.without_optimizer:
        return _without_optimizer(steps)
    held = [s for s in steps.parameters if s.optimizers and s.trace.nonzero]
    largest = max((s.trace.largest for s in held if math.isfinite(s.trace.largest)), default=0.0)
    held = [s for s in held if s.changed or s.trace.largest > _ROUNDING * largest]
    if not held:
        return Verdict(Outcome.INCONCLUSIVE, reason="no parameter of an optimizer got a gradient that is not zero")
    updates = sum(steps.updates.values())
    if not updates and not any(story.changed for story in held):
        return _never_stepped(steps, held)
    stuck = [story for story in held if story.stuck]
    small = [story for story in stuck if story.rounded and story.dtype.itemsize >= _SINGLE]
    if small and len(small) == len(stuck) < len(held):
        names, rate = listed([story.name for story in small]), small[0].learning_rate
        reason = f"the updates of {names} are smaller than their rounding at learning rate {rate:g}, the others are not"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=len(held))
    if not stuck and (waiting := idleness(steps)):
        return Verdict(Outcome.WARN, waiting[0].message, findings=waiting, looked_at=len(held))
    if not stuck:
        return Verdict(
            Outcome.PASS,
            f"{plural(len(held), 'parameter')} with gradients, and all changed in {plural(updates, 'update')}",
            looked_at=len(held),
        )
    if all(story.trace.rate == 0 < story.learning_rate for story in stuck) and not any(s.changed for s in held):
        reason = f"{plural(updates, 'update')} so far, at a learning rate of 0, from which the schedule rises"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=len(held))
    idle = [story for story in stuck if story.learning_rate == 0]
    tiny = [story for story in stuck if story.learning_rate > 0]
    findings = tuple(_stuck(tiny, updates) + _idle(idle, updates))
    outcome = Outcome.FAIL if tiny or len(idle) == len(held) else Outcome.WARN
    return Verdict(outcome, findings[0].message, findings=findings, looked_at=len(held))


def _without_optimizer(steps: TrainingSteps) -> Verdict:
    """What a program means to change by itself is not known: that all of it changes is enough."""
    held = [s for s in steps.parameters if s.trace.nonzero]
    stuck = [s.name for s in held if not s.changed]
    how = f"in {steps.steps} steps, without an optimizer"
    if stuck:
        reason = f"{listed(stuck)} got gradients and did not change {how}: whether they were meant to is not known"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=len(held))
    return Verdict(Outcome.PASS, f"all {len(held)} parameters with gradients changed {how}", looked_at=len(held))


def _never_stepped(steps: TrainingSteps, held: list[ParameterStory]) -> Verdict:
    message = (
        f"{plural(len(held), 'parameter')} got gradients, but no optimizer stepped in "
        f"{plural(steps.steps, 'training step')}"
    )
    if steps.steps < MANY_STEPS:
        return Verdict(Outcome.INCONCLUSIVE, reason=message)
    if any(story.trace.carried for story in held) and not 0 < steps.epoch < steps.steps:
        reason = f"{message}, nor were they cleared: they may be added up until the end of a pass"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=len(held))
    finding = Finding(message, steps.backward_place, help="call optimizer.step() after backward")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=len(held))


def _stuck(stories: list[ParameterStory], updates: int) -> list[Finding]:
    if not stories:
        return []
    lost, help_ = any(story.trace.lost for story in stories), ""
    why = "their gradients are cleared before the step" if lost else f"learning rate {stories[0].learning_rate:g}"
    if not lost and all(story.rounded and story.dtype.itemsize < _SINGLE for story in stories):
        kind = str(stories[0].dtype).removeprefix("torch.")
        why = f"at learning rate {stories[0].learning_rate:g} the updates are rounded away in {kind}"
        help_ = "keep the weights in float32 and compute in the smaller type under torch.autocast"
    message = (
        f"{listed([s.name for s in stories])} got gradients and did not change by one bit in "
        f"{plural(updates, 'update')} ({why})"
    )
    count = {"parameters": float(len(stories))}
    return [Finding(message, Location(symbol=stories[0].name), help=help_, numbers=count)]


def _idle(stories: list[ParameterStory], updates: int) -> list[Finding]:
    if not stories:
        return []
    message = (
        f"{listed([s.name for s in stories])} did not change in {plural(updates, 'update')}: the learning rate is 0"
    )
    return [
        Finding(
            message, Location(symbol=stories[0].name), help="set requires_grad=False if they are meant to be frozen"
        )
    ]
