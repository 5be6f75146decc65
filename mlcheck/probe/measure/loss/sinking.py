"""Whether the loss falls as far as one likes when a number is added to what a layer gives, as its bias can.

A loss that has a lower bound may fall at first, and then stays. One that goes on in proportion is a sum of scores: what
normalises them is missing, or nothing holds a term back. The energies of data and of samples cancel, as one layer gives
both; a policy gradient falls for some samples and rises for others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches
from mlcheck.probe.measure.loss.changed_outputs import has_single_loss, loss_and_calls, loss_with, weighted_layers
from mlcheck.probe.measure.loss.loss_scene import LossScene
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.trial.trial import Trial

SHIFT = 1000.0
LAST = 6
ROWS = 8
SECONDS = 3.0
STEADY = 0.5
NOTHING = 1e-3
FEW_COLUMNS = 12


@dataclass(frozen=True, slots=True)
class Sink:
    """By how much the loss falls when `SHIFT` is added to or taken from the output of `layer`.

    Of `asked` samples that this was tried with one by one, the loss falls for `falling`, and for none does it rise.
    """

    layer: str
    verb: str
    fall: float
    falling: int
    asked: int


@dataclass(frozen=True, slots=True)
class Sinking:
    """The last layers of a step, `layers` of them, along whose output the loss sinks in proportion."""

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 40

    layers: int
    found: tuple[Sink, ...]
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        clock, names = Clock(min(SECONDS, seconds / 8)), Names(trial.models)
        batch = first_batches(trial, 1)[0]
        has_single_loss(trial, batch)
        scene = LossScene(trial, batch)
        if scene.ratio is not None and scene.ratio < NOTHING and all(pull and pull > 0 for _, pull in scene.seen):
            raise NotMeasured("all that is minimised are losses of torch.nn.functional, which have a lower bound")
        value, place, calls = loss_and_calls(trial, batch)
        layers = [layer for layer in reversed(weighted_layers(trial)) if calls[layer]][:LAST]
        found = []
        outputs = [(layer, column) for layer in layers for column in _columns(layer, layers[0])]
        for (layer, column), by in product(outputs, (SHIFT, -SHIFT)):
            moved = _Moved(trial, batch, layer, column, by)
            if clock.left() and (fall := _fall(moved, value)):
                falling, asked = _one_by_one(moved, value)
                verb = "added to" if by > 0 else "taken from"
                found += [Sink(names.module(layer), verb, fall, falling, asked)] if 2 * falling >= asked > 1 else []
        return cls(len(layers), tuple(found), place)


def _columns(layer: nn.Module, last: nn.Module) -> list[int | None]:
    """All that a layer gives at once; of the last layer each number by itself, too: they may mean different things."""
    alone = range(layer.out_features) if layer is last and isinstance(layer, nn.Linear) else range(0)
    return [None, *(alone if len(alone) <= FEW_COLUMNS else ())]


@dataclass(frozen=True, slots=True)
class _Moved:
    """A training step with `by` added to the output of a layer, to one column of it where one is named."""

    trial: Trial
    batch: Any
    layer: nn.Module
    column: int | None
    by: float

    def loss(self, share: float = 1.0, row: int | None = None) -> float:
        return loss_with(self.trial, self.batch, self.layer, partial(self._output, share=share, row=row))[0]

    def rows(self) -> int:
        seen: list[int] = []
        loss_with(self.trial, self.batch, self.layer, partial(_counting, into=seen))
        return seen[0] if seen else 0

    def _output(self, output: Tensor, share: float, row: int | None) -> Tensor:
        added = torch.zeros_like(output)
        rows = added if row is None else added[row : row + 1]
        (rows if self.column is None else rows[..., self.column]).fill_(share * self.by)
        return output + added


def _fall(moved: _Moved, value: float) -> float:
    """How far the loss falls, 0 where it does not go on as steeply as it began."""
    last = moved.loss()
    if not last < min(0.0, value):
        return 0.0
    small, middle = moved.loss(0.01), moved.loss(0.1)
    early, late = (small - middle) / (SHIFT / 10 - SHIFT / 100), (middle - last) / (SHIFT - SHIFT / 10)
    return value - last if early > 0 and late > STEADY * early else 0.0


def _one_by_one(moved: _Moved, value: float) -> tuple[int, int]:
    """For how many rows the loss falls, of those asked; none of them where it rises for one."""
    rows = moved.rows()
    if rows < 2:
        return 0, 0
    asked = sorted({round(k * (rows - 1) / (ROWS - 1)) for k in range(ROWS)})
    losses = [moved.loss(row=row) for row in asked]
    slack = 1e-5 * abs(value) + 1e-6
    if not all(loss <= value + slack for loss in losses):
        return 0, len(asked)
    return sum(loss < value - slack for loss in losses), len(asked)


def _counting(output: Tensor, into: list[int]) -> Tensor:
    into.append(len(output) if output.ndim else 0)
    return output
