"""Judges whether a step was taken along gradients that an earlier step had already used."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.training.left_gradients import LeftGradients
from mlcheck.probe.measure.training.parameter_story import ParameterStory
from mlcheck.probe.measure.training.training_steps import TrainingSteps


def check(steps: TrainingSteps, evaluated: LeftGradients | None) -> Verdict:
    if not steps.owns_loop:
        return Verdict(Outcome.SKIP, reason="the loop is mlcheck's own: your program has none to look at")
    if steps.without_optimizer:
        return _without_optimizer(steps)
    updates = sum(steps.updates.values())
    if updates < 2:
        return Verdict(
            Outcome.INCONCLUSIVE,
            reason=f"the optimizers stepped {plural(updates, 'time')} in {plural(steps.steps, 'step')}",
        )
    reused = [story for story in steps.parameters if story.trace.reused]
    if reused:
        return _fail(steps, reused, updates)
    foreign = [story for story in steps.parameters if story.trace.foreign]
    if foreign:
        return _leftover(steps, foreign, updates)
    twice = [story for story in steps.parameters if story.trace.twice]
    if twice:
        return _applied_twice(steps, twice, updates)
    if evaluated and evaluated.misled:
        return _of_evaluation(evaluated)
    return Verdict(
        Outcome.PASS,
        f"every one of {plural(updates, 'optimizer step')} used gradients that were clean before backward",
        looked_at=updates,
    )


def _without_optimizer(steps: TrainingSteps) -> Verdict:
    """The program's own arithmetic is not seen: only what lies there when backward comes."""
    carried = [story for story in steps.parameters if story.trace.carried]
    if carried:
        reason = (
            f"{len(carried)} parameters kept the gradient of the batch before; the program changes them without an "
            "optimizer, so whether it had been applied is not seen"
        )
        return Verdict(Outcome.INCONCLUSIVE, reason=reason)
    told = f"no gradient of an earlier batch was left when backward came, in {steps.steps} steps without an optimizer"
    return Verdict(Outcome.PASS, told, looked_at=steps.steps)


def _fail(steps: TrainingSteps, reused: list[ParameterStory], updates: int) -> Verdict:
    held = ", ".join(sorted({name for story in reused for name in story.optimizers}))
    times = max(story.trace.reused for story in reused)
    return Verdict(
        Outcome.FAIL,
        f"{len(reused)} of {plural(len(steps.parameters), 'parameter')} kept the gradient of the step before",
        findings=(
            Finding(
                f"backward adds to gradients that `{held}` has already applied: nothing clears them "
                f"({len(reused)} of {plural(len(steps.parameters), 'parameter')}, {times} of "
                f"{plural(updates, 'update')})",
                steps.backward_place,
                help=f"call `{held.split(', ')[0]}.zero_grad()` once for every step, before backward",
                numbers={"parameters": float(len(reused)), "updates": float(times)},
            ),
        ),
        looked_at=updates,
    )


def _leftover(steps: TrainingSteps, foreign: list[ParameterStory], updates: int) -> Verdict:
    held = ", ".join(sorted({name for story in foreign for name in story.optimizers}))
    owners = ", ".join(sorted({story.model for story in foreign}))
    message = (
        f"`{held}` steps along gradients of two losses: those of `{owners}` were filled by a loss that another "
        "optimizer had stepped for, and were not cleared"
    )
    place = next((steps.step_places[name] for name in held.split(", ") if name in steps.step_places), None)
    help_ = f"clear `{held}` before its own backward, or freeze `{owners}` while the other loss passes through it"
    finding = Finding(message, place, help=help_) if place else Finding(message, help=help_)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=updates)


def _applied_twice(steps: TrainingSteps, twice: list[ParameterStory], updates: int) -> Verdict:
    held = " and ".join(f"`{name}`" for name in twice[0].optimizers)
    message = (
        f"{listed([story.name for story in twice])} are moved twice along each gradient: {held} hold them both, and "
        "the later one steps along what the other has just applied"
    )
    place = steps.step_places.get(twice[0].optimizers[-1], Location()) if twice[0].optimizers else Location()
    help_ = "give each parameter to one optimizer; for rates of their own, use parameter groups"
    return Verdict(Outcome.WARN, message, findings=(Finding(message, place, help=help_),), looked_at=updates)


def _of_evaluation(seen: LeftGradients) -> Verdict:
    message = (
        f"evaluation leaves gradients behind, and the next training step goes along them as well: {seen.misled} of "
        f"{plural(seen.parameters, 'parameter')} come out otherwise than with the gradients put back"
    )
    help_ = "clear the gradients after the evaluation's backward, or take them with torch.autograd.grad"
    return Verdict(Outcome.FAIL, message, findings=(Finding(message, seen.place, help=help_),), looked_at=1)
