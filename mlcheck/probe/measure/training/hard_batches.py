"""Batches of a pass that arithmetic may not survive, however late they come: each is tried with the first weights.

Hard are one with a sample that is blank, one in which a column is the same for all samples although it varies, and the
one with the largest number.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.probe.measure.drive import Clock
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.probe.measure.tree import copied, leaves, on_host
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import NotReached, Trial

SECONDS = 2.0
_MOST_COLUMNS = 512
_FEW = 2


@dataclass(frozen=True, slots=True)
class Hard:
    """What is hard about a batch, for the middle of a sentence, and which of a pass it is."""

    what: str
    batch: int


@dataclass(frozen=True, slots=True)
class HardBatches:
    """How many of `batches` were tried, and those whose loss, or the weights after it, are no finite numbers.

    The first batch of the pass is not hard, and its loss is finite: else nothing is told.
    """

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 40

    batches: int
    tried: int
    broken: tuple[Hard, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        clock, search = Clock(min(SECONDS, seconds / 10)), _Search()
        seed_all(0)
        first: Any = None
        for batch in trial.train_batches():
            first = copied(batch) if first is None else first
            search.look(batch)
            if not clock.left():
                break
        hard = search.found()
        if not hard:
            raise NotMeasured("no batch of a pass has a blank sample, a constant column, or an outlier")
        if not _survives(trial, first):
            raise NotMeasured("an ordinary batch has no finite loss either")
        broken = tuple(one for one, batch in hard if not _survives(trial, batch))
        return cls(search.batches, len(hard), broken)


def _survives(trial: Trial, batch: Any) -> bool:
    with restored(trial), GradientWatch([]) as watch:
        seed_all(0)
        try:
            trial.train_step(copied(batch), 0)
        except NotReached:
            raise
        except Exception:  # what a step raises is another rule's matter
            return True
        losses = all(math.isfinite(float(backward.root.sum())) for backward in watch.backwards)
        weights = (weight for model in trial.models.values() for weight in model.parameters())
        return losses and all(bool(weight.isfinite().all()) for weight in weights)


class _Search:
    """Goes through a pass and keeps a batch of each kind."""

    def __init__(self) -> None:
        self.batches = 0
        self._blank: tuple[Hard, Any] | None = None
        self._largest: tuple[float, str, int, Any] = (0.0, "", 0, None)
        self._constant: dict[tuple[str, int], tuple[Hard, Any]] = {}
        self._ranges: dict[str, tuple[Tensor, Tensor]] = {}

    def look(self, batch: Any) -> None:
        for name, given in leaves(on_host(batch)):
            if given.is_floating_point() and given.ndim > 1 and len(given) >= _FEW and given.numel():
                values = given.flatten(1).double()
                if values.shape[1] > 1:
                    self._look_at_rows(name, values, batch)
                    self._look_at_columns(name, values, batch)
        self.batches += 1

    def _look_at_rows(self, name: str, values: Tensor, batch: Any) -> None:
        place, width = part_of("batch", name), values.shape[1]
        blank = (values == values[:, :1]).all(1)
        if self._blank is None and bool(blank.any()) and not bool(blank.all()):
            value = float(values[blank][0, 0])
            what = f"with a sample whose {width:,} numbers in `{place}` are all {value:.4g}"
            self._blank = Hard(what, self.batches), copied(batch)
        if (size := float(values.nan_to_num(0.0, 0.0, 0.0).abs().max())) > self._largest[0]:
            self._largest = size, place, self.batches, copied(batch)

    def _look_at_columns(self, name: str, values: Tensor, batch: Any) -> None:
        low, high = values.amin(0), values.amax(0)
        if len(low) > _MOST_COLUMNS:
            return
        before = self._ranges.get(name, (low, high))
        if len(before[0]) != len(low):
            return
        self._ranges[name] = torch.minimum(before[0], low), torch.maximum(before[1], high)
        alike = [column for column in (low == high).nonzero()[:, 0].tolist() if (name, column) not in self._constant]
        if alike:
            kept = copied(batch)
            for column in alike:
                what = f"in which column {column} of `{part_of('batch', name)}` is {float(low[column]):.4g} for all "
                hard = Hard(f"{what}{len(values)} samples", self.batches)
                self._constant[name, column] = hard, kept

    def found(self) -> list[tuple[Hard, Any]]:
        """At most one of each kind, and no batch twice; columns that never vary are no reason."""
        size, place, number, batch = self._largest
        varying = [
            (hard, kept)
            for (name, column), (hard, kept) in self._constant.items()
            if self._ranges[name][0][column] < self._ranges[name][1][column]
        ]
        largest = [(Hard(f"with the largest number of `{place}`, {size:.4g},", number), batch)] if number else []
        found = [*([self._blank] if self._blank else []), *varying[:1], *largest]
        first: dict[int, tuple[Hard, Any]] = {}
        for one, kept in found:
            first.setdefault(one.batch, (one, kept))
        return list(first.values())
