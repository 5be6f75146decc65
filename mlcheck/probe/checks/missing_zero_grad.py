"""Judges whether a step was taken along gradients that an earlier step had already used."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training_steps import ParameterStory, TrainingSteps


def check(steps: TrainingSteps) -> Verdict:
    if not steps.owns_loop:
        return Verdict(Outcome.SKIP, reason="the loop is mlcheck's own: your program has none to look at")
    updates = sum(steps.updates.values())
    if updates < 2:
        return Verdict(Outcome.INCONCLUSIVE, reason=f"the optimizers stepped {updates} times in {steps.steps} steps")
    reused = [story for story in steps.parameters if story.trace.reused]
    if reused:
        return _fail(steps, reused, updates)
    foreign = [story for story in steps.parameters if story.trace.foreign]
    if foreign:
        return _leftover(steps, foreign, updates)
    return Verdict(
        Outcome.PASS,
        f"every one of {updates} optimizer steps used gradients that were clean before backward",
        looked_at=updates,
    )


def _fail(steps: TrainingSteps, reused: list[ParameterStory], updates: int) -> Verdict:
    held = ", ".join(sorted({name for story in reused for name in story.optimizers}))
    times = max(story.trace.reused for story in reused)
    return Verdict(
        Outcome.FAIL,
        f"{len(reused)} of {len(steps.parameters)} parameters kept the gradient of the step before",
        findings=(
            Finding(
                f"backward adds to gradients that `{held}` has already applied: nothing clears them "
                f"({len(reused)} of {len(steps.parameters)} parameters, {times} of {updates} updates)",
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
