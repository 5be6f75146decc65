"""Which metric a schedule waits on before it lowers the rate (`ReduceLROnPlateau`), and which end of it is good."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

from torch.optim.lr_scheduler import ReduceLROnPlateau

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import replaced
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.trial import Trial

_STEPS = 2
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class Plateau:
    """`metric` is what the program calls the number that it steps the schedule with."""

    metric: str
    mode: str
    place: Location


@dataclass(frozen=True, slots=True)
class Plateaus:
    """The schedules that were stepped in a validation of one batch, or in two training steps."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 12

    seen: tuple[Plateau, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - three batches, whatever the limit
        known_of = [*trial.schedulers.values(), *(one for owner in trial.objects for one in _attributes(owner))]
        waiting = list({id(one): one for one in known_of if isinstance(one, ReduceLROnPlateau)}.values())
        if not waiting:
            raise NotMeasured("no schedule waits on a metric")
        given: list[tuple[ReduceLROnPlateau, float, Location]] = []
        known: set[tuple[str, float]] = set()
        with ExitStack() as stack:
            for one in waiting:
                stack.enter_context(replaced(one, "step", _recorder(one, given)))
            for index, batch in enumerate(first_batches(trial, _STEPS)):
                known |= set(_numbers(trial.train_step(batch, index)))
            if trial.evaluate_step and trial.validation_batches:
                for batch in islice(trial.validation_batches(), 1):
                    known |= set(_numbers(trial.evaluate_step(copied(batch))))
                if trial.progress:
                    trial.progress.snapshot()  # ends the validation under way
        return cls(tuple(_named(given, known)))


def _attributes(owner: object) -> Iterator[object]:
    """What hangs on one of the user's objects: a framework need not be told of a schedule that is stepped by hand."""
    yield from vars(owner).values() if hasattr(owner, "__dict__") else ()


def _recorder(schedule: ReduceLROnPlateau, given: list[tuple[ReduceLROnPlateau, float, Location]]) -> Any:
    def step(metrics: Any, *_: Any, **__: Any) -> None:
        given.append((schedule, float(metrics), user_location()))

    return step


def _numbers(metrics: Any) -> Iterator[tuple[str, float]]:
    for name, value in metrics.items() if isinstance(metrics, Mapping) else ():
        with suppress(TypeError, ValueError, RuntimeError):  # what is no one number
            yield str(name), float(value)


def _named(given: list[tuple[ReduceLROnPlateau, float, Location]], known: set[tuple[str, float]]) -> list[Plateau]:
    """Those whose number is one metric's alone."""
    found: dict[tuple[int, str], Plateau] = {}
    for schedule, value, place in given:
        names = {name for name, other in known if math.isclose(value, other, rel_tol=_ROUNDING)}
        if len(names) == 1:
            name = names.pop()
            found[id(schedule), name] = Plateau(name, schedule.mode, place)
    return list(found.values())
