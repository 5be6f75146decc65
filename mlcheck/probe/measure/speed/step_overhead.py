"""Whether a step takes as long for a quarter of its batch: then it is not its computing that takes the time.

A paired experiment: the same step on the batch and on another of a quarter or of four times its size, in turns, by
processor time (on a device: by the clock, which is then synchronised). What does not grow with the batch is Python,
launching and whatever else happens once a step: with a share f of it in the step's cost, four times the batch costs
4 - 3 f times as much.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import comb
from statistics import median
from typing import Any, ClassVar, Self

import torch

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, await_device, first_batches, inconclusive, length_of
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.speed.operation_table import OperationTable, operations
from mlcheck.probe.measure.tree import batch_size, copied, rows
from mlcheck.trial.trial import Trial

FACTOR = 4
# Four fifths of the cost happen once a step, so that a pass with four times the batch is 2.5 times as fast.
SAME = FACTOR - (FACTOR - 1) * 0.8
GROWS = 1.8
WORTH_PASS_S = 5.0
_FEW = 8
_FEWEST_PAIRS = 3
_PAIRS = 7
_MOST_PAIRS = 21
_BLOCK_S = 0.08
_LONGEST_S = 0.5


@dataclass(frozen=True, slots=True)
class StepOverhead:
    """`ratios` of a step on the larger batch to one on the batch a quarter as large, by pair of blocks.

    `size` is the program's own batch, `step_s` the time of its step, `batches` the length of a pass (0: unknown).
    `table` tells the operations of a step, where it was worth a look.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 91

    size: int
    step_s: float
    batches: int
    ratios: tuple[float, ...] = ()
    table: OperationTable = field(default_factory=OperationTable)
    place: Location = field(default_factory=Location)

    @property
    def interval(self) -> tuple[float, float]:
        """Where the true ratio lies, with a confidence of 95 %."""
        return interval(self.ratios)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if not trial.repeats_batches:
            raise NotMeasured("the program draws its batches itself, between its own steps")
        batch = first_batches(trial, 1)[0]
        size = batch_size(batch)
        if not size:
            raise NotMeasured("the samples of a batch cannot be told apart, so that none of another size can be made")
        timer = _Timer(trial)
        timer.steps(batch, 2)
        step_s = min(timer.steps(batch, 1) for _ in range(3))
        batches = length_of(trial.loaders.get("training"))
        place = Location(*trial.entry)
        if batches * step_s < WORTH_PASS_S or step_s > _LONGEST_S:
            return cls(size, step_s, batches, place=place)
        ratios = _ratios(timer, batch, size, step_s, Clock(min(12.0, seconds / 4)))
        table = operations(trial, copied(batch)) if median(ratios) < FACTOR / 2 else OperationTable()
        return cls(size, step_s, batches, tuple(ratios), table, place)


def interval(values: Sequence[float]) -> tuple[float, float]:
    """The confidence interval of the median at 95 %, by the sign test; of fewer than six values their range."""
    ordered, tail, dropped = sorted(values), 1.0, 0
    while 2 * tail <= 0.05 * 2 ** len(ordered):
        dropped += 1
        tail += comb(len(ordered), dropped)
    dropped = max(0, dropped - 1)
    return ordered[dropped], ordered[-1 - dropped]


def _wanted(ratios: list[float]) -> bool:
    """Whether another pair is wanted: more of them where those there are leave open on which side of a bound it is."""
    low, high = interval(ratios)
    decided = high <= SAME or low >= GROWS or SAME < low <= high < GROWS
    return len(ratios) < (_PAIRS if decided else _MOST_PAIRS)


def _ratios(timer: _Timer, batch: Any, size: int, step_s: float, clock: Clock) -> list[float]:
    """A small batch grows, a larger one shrinks: neither needs more memory than training does anyway."""
    whole = torch.arange(size)
    grown = size < _FEW
    other = rows(batch, whole.repeat(FACTOR) if grown else whole[: size // FACTOR])
    large, small = (other, batch) if grown else (batch, other)
    count = max(2, int(_BLOCK_S / step_s))
    found: list[float] = []
    try:
        timer.steps(other, 2)
        while len(found) < _FEWEST_PAIRS or (clock.left() and _wanted(found)):
            found.append(timer.steps(large, count) / max(timer.steps(small, count), 1e-9))
    except Exception as error:
        line = f"{type(error).__name__}: {error}".splitlines()[0]
        raise inconclusive(f"the step takes no batch of another size than its own: {line}") from error
    return found


class _Timer:
    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._index = 0
        self._on_device = trial.device.type != "cpu"

    def steps(self, batch: Any, count: int) -> float:
        """Seconds a step: of this process's processor time, or of the clock on a device."""
        taken = 0.0
        for _ in range(count):
            again = copied(batch)
            start = self._now()
            self._trial.train_step(again, self._index)
            taken += self._now() - start
            self._index += 1
        return taken / count

    def _now(self) -> float:
        if not self._on_device:
            return time.thread_time()
        await_device(self._trial.device)
        return time.perf_counter()
