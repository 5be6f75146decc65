"""The learning rates of the whole planned run, from the program's own schedulers and without its training."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch.optim.lr_scheduler import LambdaLR

from mlcheck.core.finding import Location
from mlcheck.core.plural import plural
from mlcheck.probe.measure.drive import Clock, inconclusive, length_of
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.training.schedule_calls import Rhythm, planned_schedulers, rhythms
from mlcheck.trial.planned import Planned, planned_in
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

SECONDS = 6.0


@dataclass(frozen=True, slots=True)
class Course:
    """One scheduler over the run: the largest rate of its optimizer after each of its steps, the start before them.

    `kind` is the scheduler's class, `last_kind` that of the part which ends it, `target` where that leads. `error`
    is what its step number `len(rates)` raised, `base` the rate that a function of the user's is multiplied with.
    """

    name: str
    kind: str
    last_kind: str
    rhythm: Rhythm
    rates: tuple[float, ...]
    target: float = 0.0
    error: str = ""
    base: float = math.inf


@dataclass(frozen=True, slots=True)
class PlannedRates:
    """Every scheduler's course over `batches` batches, which are `epochs` epochs where an epoch's length is known."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 30

    planned: Planned
    batches: int
    epochs: float
    courses: tuple[Course, ...]
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        schedulers = planned_schedulers(trial)
        planned = trial.planned or planned_in(trial.objects)
        if planned is None:
            raise NotMeasured("how long the run is planned to be is not known: say it with `--epochs N`")
        clock, epoch = Clock(min(SECONDS, seconds / 4)), length_of(trial.loaders.get("training")) or None
        batches = planned.batches(epoch)
        if batches is None:
            raise NotMeasured("how many batches an epoch has is not known, so a run in epochs cannot be planned")
        with restored(trial):
            seen = rhythms(trial, schedulers, epoch, clock)
        epochs = batches / epoch if epoch else 0.0
        courses = tuple(
            _course(name, one, seen[name], _steps(seen[name], batches, epochs), clock)
            for name, one in schedulers.items()
        )
        return cls(planned, batches, epochs, courses, Location(*trial.entry))


def _steps(rhythm: Rhythm, batches: int, epochs: float) -> int:
    return rhythm.calls * (batches // rhythm.every) + rhythm.per_epoch * int(epochs)


def _course(name: str, scheduler: Any, rhythm: Rhythm, steps: int, clock: Clock) -> Course:
    rates, error = [_rate(scheduler)], ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # no optimizer was stepped
        for _ in range(steps):
            try:
                scheduler.step()
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}".splitlines()[0]
                break
            rates.append(_rate(scheduler))
            if not clock.left():
                raise inconclusive(f"there was time for {len(rates) - 1:,} of {plural(steps, 'step')} of the schedule")
    last = (getattr(scheduler, "_schedulers", None) or [scheduler])[-1]
    target = getattr(last, "eta_min", None) or scheduler.optimizer.param_groups[0].get("min_lr", 0.0)
    kinds = type(scheduler).__name__, type(last).__name__
    used = rates[:-1] if len(rates) > 1 and not error else rates  # no batch comes after the last step
    return Course(name, *kinds, rhythm, tuple(used), float(target), error, _base(scheduler))


def _base(scheduler: Any) -> float:
    """Infinite for a schedule that takes no function."""
    return max(map(float, scheduler.base_lrs)) if isinstance(scheduler, LambdaLR) else math.inf


def _rate(scheduler: Any) -> float:
    groups: list[Mapping[str, Any]] = scheduler.optimizer.param_groups
    return max(float(group["lr"]) for group in groups)
