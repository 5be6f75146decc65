"""What grows with every pass: tensors in the program's lists, dicts and attributes, and hooks of its modules.

The same few batches are trained on and evaluated again and again, each time to the end of an epoch and of a validation,
so that what is cleared there, and what is kept once for each sample, does not count. Of a program that counts its
epochs itself, or has no end of an epoch, only hooks are counted, after every step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches, inconclusive, length_of, repeated_batches
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.attributes import MappingCell
from mlcheck.trial.cells import Cell, SequenceCell
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import cells_of, restored
from mlcheck.trial.trial import Trial

ROUNDS = 5
STEP = "step"
_BATCHES = 3
_EVALUATED = 2
_SMALL = 2 * (_BATCHES + _EVALUATED)  # one number a batch, as of a loss, fills no memory
_HOOKS = "_hooks"
_LONG, _LARGE = 100_000, 20_000_000
_LATE = 10_000  # what is gathered in the first steps alone is complete by then
_GRADIENTS = ".grad"

Sizes = dict[str, int]


@dataclass(frozen=True, slots=True)
class Pile:
    """What `name` holds more of after every pass: numbers in tensors, or hooks. `phase` is where it grows.

    `unread` says that training steps go on just the same, and add to it, where it is a list and far longer: none of
    them takes from it, and none keeps it short. `endless` says of a tensor that steps add to it however long it is.
    """

    name: str
    phase: str
    held: tuple[int, ...]
    unread: bool = False
    endless: bool = False

    @property
    def is_of_hooks(self) -> bool:
        return self.name.endswith(_HOOKS)

    @property
    def growth(self) -> int:
        return (self.held[-1] - self.held[0]) // (len(self.held) - 1)


@dataclass(frozen=True, slots=True)
class Piles:
    """What grew in every `round`, largest first; `looked_at` things were watched."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 30

    piles: tuple[Pile, ...]
    looked_at: int
    place: Location
    round: str

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        clock = Clock(seconds / 4)
        epoch = length_of(trial.loaders.get("training")) if trial.counts_batches else 0
        sizes = list(_rounds(trial, epoch, clock) if epoch else _steps(trial, clock))
        if len(sizes) < ROUNDS:
            raise inconclusive(f"there was time for {len(sizes)} of {ROUNDS} rounds of training and evaluation")
        trained, evaluated = [one for one, _ in sizes], [other for _, other in sizes]
        names = [name for name in evaluated[-1] if _grows([held.get(name, 0) for held in evaluated[1:]], name)]
        piles = [_pile(trial, name, trained, evaluated) for name in names]
        return cls(
            tuple(sorted(piles, key=lambda pile: (not pile.is_of_hooks, -pile.growth))),
            len(evaluated[-1]),
            Location(*trial.entry),
            "round of training and evaluation" if epoch else STEP,
        )


def _grows(held: list[int], name: str) -> bool:
    least = 0 if name.endswith(_HOOKS) else _SMALL
    return all(later - earlier > least for earlier, later in pairwise(held))


def _pile(trial: Trial, name: str, trained: list[Sizes], evaluated: list[Sizes]) -> Pile:
    in_evaluation = [after.get(name, 0) - before.get(name, 0) for before, after in zip(trained, evaluated)]
    phase = "evaluation" if min(in_evaluation[1:]) > 0 else "training"
    held = tuple(sizes.get(name, 0) for sizes in evaluated[1:])
    if phase == "evaluation":
        return Pile(name, phase, held)
    return Pile(name, phase, held, _is_unread(trial, name, held[-1]), _is_endless(trial, name, held[-1]))


def _is_unread(trial: Trial, name: str, held: int) -> bool:
    cells = [cell for cell in cells_of(trial) if isinstance(cell, SequenceCell) and cell.name == name]
    kept = cells[0].sequence if cells else None
    if not isinstance(kept, list) or not kept:
        return False
    times = min(_LONG // len(kept), _LARGE // max(held, 1))
    as_it_is = _steps_with(trial, kept, 0)
    return as_it_is is not None and as_it_is == _steps_with(trial, kept, times)


def _steps_with(trial: Trial, kept: list[Any], times: int) -> tuple[int, list[float]] | None:
    """By how much the list grows in some steps, so many times longer at their start, and the losses of these steps."""
    with restored(trial):
        kept.extend(kept * times)
        before, watch = len(kept), GradientWatch([])
        seed_all(0)
        try:
            with watch:
                for index, batch in enumerate(first_batches(trial, _BATCHES)):
                    trial.train_step(copied(batch), index)
        except Exception:  # it reads what it has kept, and finds too much
            return None
        grown = len(kept) - before
        return (grown, [float(one.root.sum()) for one in watch.backwards]) if grown >= _BATCHES else None


def _is_endless(trial: Trial, name: str, held: int) -> bool:
    """Whether some steps add to a tensor that is as long as none is kept on purpose: nothing cuts it."""
    cells = [cell for cell in cells_of(trial) if isinstance(cell, MappingCell)]
    places = [(cell.mapping, key) for cell in cells for key in cell.mapping if f"{cell.name}.{key}" == name]
    kept = places[0][0][places[0][1]] if places else None
    if not isinstance(kept, Tensor) or kept.requires_grad or not kept.ndim or not held:
        return False
    mapping, key = places[0]
    times = min(_LONG // max(len(kept), 1), _LARGE // held)
    with restored(trial), suppress(Exception):  # it may be made for what is short
        mapping[key] = longer = kept.repeat(times, *[1] * (kept.ndim - 1))
        for index, batch in enumerate(first_batches(trial, _BATCHES)):
            trial.train_step(copied(batch), _LATE + index)
        grown = mapping[key]
        return len(longer) >= _LONG // 2 and isinstance(grown, Tensor) and len(grown) >= len(longer) + _BATCHES
    return False


def _rounds(trial: Trial, epoch: int, clock: Clock) -> Iterator[tuple[Sizes, Sizes]]:
    """After each round what everything holds: at the end of its training, and of its evaluation."""
    steps = [copied(batch) for batch in first_batches(trial, _BATCHES)]
    asked = list(islice(trial.validation_batches(), _EVALUATED)) if trial.validation_batches else []
    for number in range(ROUNDS):
        if not clock.left():
            return
        seed_all(number)
        for place, batch in enumerate(steps[:epoch]):
            within = epoch - 1 if place == min(len(steps), epoch) - 1 else place
            trial.train_step(copied(batch), number * epoch + within)
        trained = _sizes(trial)
        for batch in asked:
            if trial.evaluate_step:
                trial.evaluate_step(copied(batch))
        if trial.progress:
            trial.progress.snapshot()  # ends the validation under way
        yield trained, _sizes(trial)


def _steps(trial: Trial, clock: Clock) -> Iterator[tuple[Sizes, Sizes]]:
    """The hooks after each of a few steps."""
    for number, batch in enumerate(islice(repeated_batches(trial), ROUNDS)):
        if not clock.left():
            return
        trial.train_step(batch, number)
        hooks = {
            f"{name}.{kind}".lstrip("."): len(held)
            for model in trial.models.values()
            for name, module in model.named_modules()
            for kind, held in vars(module).items()
            if kind.endswith(_HOOKS) and isinstance(held, Mapping)
        }
        yield hooks, hooks


def _sizes(trial: Trial) -> Sizes:
    """What each list, dict and attribute of the program's holds, by the name of the place."""
    found: Sizes = {}
    for cell in cells_of(trial):
        for name, held in _held(cell):
            found[name] = found.get(name, 0) + held
    return found


def _held(cell: Cell) -> Iterator[tuple[str, int]]:
    if isinstance(cell, SequenceCell):
        bounded = isinstance(cell.sequence, deque) and cell.sequence.maxlen is not None
        if not bounded and (held := _numbers(cell.sequence)):
            yield cell.name, held
    elif isinstance(cell, MappingCell):
        if cell.name.endswith(_HOOKS):
            yield cell.name, len(cell.mapping)
            return
        for key, value in cell.mapping.items():
            if isinstance(value, Tensor | np.ndarray) and not cell.name.endswith(_GRADIENTS):
                yield f"{cell.name}.{key}" if isinstance(key, str) else cell.name, _numbers(value)


def _numbers(value: Any, depth: int = 2) -> int:
    """How many numbers are in the tensors and arrays of a value, two levels deep."""
    if isinstance(value, Tensor):
        return value.numel()
    if isinstance(value, np.ndarray):
        return int(value.size)
    if depth and isinstance(value, list | tuple | deque):
        return sum(_numbers(item, depth - 1) for item in value)
    if depth and isinstance(value, Mapping):
        return sum(_numbers(item, depth - 1) for item in value.values())
    return 0
