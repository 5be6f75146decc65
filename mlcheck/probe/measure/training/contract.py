"""What a trial does past the context that its framework gave it: seen in a few steps and one validation."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import is_users, user_location
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.trial.trial import EntryError, Trial

STEPS = 6
_VALIDATION_S = 5.0
_MANUAL = "MANUAL_STEP"


@dataclass(frozen=True, slots=True)
class Contract:
    """Counts over `steps` training steps of a trial with a context.

    `by_hand` are optimizers that the context has wrapped and the trial steps itself without need, `unwrapped` those it
    does not know, each with the place of a step. `backwards` is where backward was called past the context.
    `schedulers` are stepped by the trial although the framework steps them too, of `scheduled` that it has wrapped.
    `metrics` says how the keys of the metrics change from one validation batch to the next; `validated` counts those
    batches.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    steps: int
    by_hand: dict[str, Location]
    unwrapped: dict[str, Location]
    backwards: tuple[Location, ...]
    schedulers: dict[str, Location]
    scheduled: int
    metrics: str
    validated: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        if not any(event.startswith("wrap_") for event, _ in trial.record):
            raise NotMeasured("no framework's context drives this program")
        modes = [detail for event, detail in trial.record if event == "wrap_lr_scheduler"]
        begun = len(trial.record)
        watch = GradientWatch([])
        with watch, _stepped(trial.schedulers) as stepped:
            for index, batch in enumerate(islice(repeated_batches(trial), STEPS)):
                trial.train_step(batch, index)
        events = trial.record[begun:]
        known = {id(optimizer): name for name, optimizer in trial.optimizers.items()}
        held = {id(part) for optimizer in trial.optimizers.values() for part in vars(optimizer).values()}
        metrics, validated = _validate(trial)
        past = len(watch.backwards) - sum(event == "backward" for event, _ in events)
        return cls(
            steps=STEPS,
            by_hand={
                name: watch.step_places[id(optimizer)]
                for name, optimizer in trial.optimizers.items()
                if _steps_past(name, events) and not _needs_closure(optimizer)
            },
            unwrapped={
                type(o).__name__: watch.step_places[key]
                for key, o in watch.optimizers.items()
                if key not in known and key not in held  # one that a wrapped one steps is saved with it
            },
            backwards=tuple(dict.fromkeys(each.place for each in watch.backwards))[:1] if past > 0 else (),
            schedulers={
                name: places[0] for (name, places), mode in zip(stepped.items(), modes) if mode != _MANUAL and places
            },
            scheduled=len(modes),
            metrics=metrics,
            validated=validated,
        )


def _steps_past(name: str, events: list[tuple[str, str]]) -> bool:
    """Whether an optimizer stepped more often than the context was asked to step it."""
    return events.count(("step", name)) > events.count(("step_optimizer", name))


def _needs_closure(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a step evaluates the loss several times, as L-BFGS does: a context's step has no place for that."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


@contextmanager
def _stepped(schedulers: Mapping[str, Any]) -> Iterator[dict[str, list[Location]]]:
    """Where the user's own code steps each scheduler within, which a framework's steps do not come from."""
    seen: dict[str, list[Location]] = {name: [] for name in schedulers}
    own = {name: vars(scheduler).get("step") for name, scheduler in schedulers.items()}

    def noting(name: str, original: Any) -> Any:
        def step(*args: Any, **kwargs: Any) -> Any:
            if is_users(sys._getframe(1).f_code.co_filename):
                seen[name].append(user_location())
            return original(*args, **kwargs)

        return step

    for name, scheduler in schedulers.items():
        scheduler.step = noting(name, scheduler.step)
    try:
        yield seen
    finally:
        for name, scheduler in schedulers.items():
            if own[name] is None:
                del scheduler.step
            else:
                scheduler.step = own[name]


def _validate(trial: Trial) -> tuple[str, int]:
    """One validation, as far as time allows: what the framework refuses about its metrics, and its batches."""
    if trial.evaluate_step is None or trial.validation_batches is None:
        return "", 0
    clock, batches = Clock(_VALIDATION_S), 0
    try:
        for batch in trial.validation_batches():
            batches += 1
            trial.evaluate_step(batch)
            if not clock.left():
                break
    except EntryError as refused:
        return str(refused), batches
    return "", batches
