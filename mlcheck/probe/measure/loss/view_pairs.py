"""Which of a batch's views a contrastive loss takes for the right one: whose row and whose column a score stands in."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from inspect import signature
from itertools import islice
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import batch_size, beside, copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_SAMPLES = 4
_MOST_VIEWS = 4
_FEW = 10
_SECONDS = 3.0
_NEARLY_ALL = 0.9


@dataclass(frozen=True, slots=True)
class Mistaken:
    """A row of scores of sample `sample`; its target is column `target`, another view of it is in column `mate`."""

    sample: int
    row: int
    target: int
    mate: int


@dataclass(frozen=True, slots=True)
class ViewPairs:
    """Of `asked` rows of scores that have another view of their sample in a column, those whose target is none."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 12

    asked: int
    mistaken: tuple[Mistaken, ...]
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        batch = first_batches(trial, 1)[0]
        size = batch_size(batch)
        views = [name for name, leaf in islice(leaves(batch), _MOST_VIEWS) if leaf.ndim > 1]
        if size is None or size < _FEW or not views:
            raise NotMeasured("the batch has no samples that a loss could look for views of")
        call = scored_views(trial, batch)
        if call is None:
            raise NotMeasured("no loss looks for a view among those of the batch")
        if len(views) == 1 and not _drawn_in_step(trial, batch, call):
            raise NotMeasured("the batch has no two views of its samples, and its step draws none")
        clock, table = Clock(min(_SECONDS, seconds / 10)), _Table(trial, batch, call)
        chosen = torch.linspace(1, size - 2, _SAMPLES).long().tolist()
        pairs = [pair for sample in chosen if clock.left() for pair in table.pairs(views, sample)]
        if not pairs:
            raise NotMeasured("no row of the scores has another view of its sample in a column")
        told = [(sample, row, int(call.target[row]), own) for sample, row, own in pairs]
        wrong = tuple(Mistaken(sample, row, at, min(own)) for sample, row, at, own in told if at not in own)
        return cls(len(pairs), wrong, call.place)


class _Table:
    """The scores of a step, and where they change with a sample of one tensor of the batch."""

    def __init__(self, trial: Trial, batch: Any, call: LossCall) -> None:
        self._trial, self._batch, self._call = trial, batch, call

    def pairs(self, views: list[str], sample: int) -> list[tuple[int, int, set[int]]]:
        """The sample, each row that is one of its views, and the columns that are others of its views."""
        seen = {name: self._lines(name, sample) for name in views}
        if len(seen) == 1:
            return self._made_in_step(sample, *next(iter(seen.values())))
        return [
            (sample, row, own)
            for name, (rows, _) in seen.items()
            for row in sorted(rows)
            if (own := set().union(*(columns for other, (_, columns) in seen.items() if other != name)))
        ]

    def _made_in_step(self, sample: int, rows: set[int], columns: set[int]) -> list[tuple[int, int, set[int]]]:
        """Of views that the step makes of one tensor: in a table of all by all a row's own column is no other view."""
        scores = self._call.input
        if rows != columns or scores.shape[0] != scores.shape[1]:
            return []
        of_one_call = torch.allclose(scores, scores.T)
        pairs = ((row, columns - {row} if of_one_call else columns) for row in sorted(rows))
        return [(sample, row, own) for row, own in pairs if own]

    def _lines(self, name: str, sample: int) -> tuple[set[int], set[int]]:
        """The rows and the columns nearly all of which change with this sample; of many it is none's own."""
        changed = copied(self._batch)
        values = dict(leaves(changed))[name].data
        others = values.roll(1, 0)[sample].clone()
        values[sample] = others if not values.is_floating_point() else 0.5 * (others + values.roll(2, 0)[sample])
        call = None
        with suppress(Exception):  # a program may refuse a sample that is made of two
            call = scored_views(self._trial, changed)
        if call is None or call.input.shape != self._call.input.shape:
            return set(), set()
        moved = (call.input != self._call.input).double()
        rows, columns = ((moved.mean(dim) > _NEARLY_ALL).nonzero()[:, 0].tolist() for dim in (1, 0))
        few = len(rows) <= len(moved) // 4 and len(columns) <= moved.shape[1] // 4
        return (set(rows), set(columns)) if few else (set(), set())


def _drawn_in_step(trial: Trial, batch: Any, call: LossCall) -> bool:
    """Whether the scores of the same batch are others under other random numbers, dropout aside."""
    again = scored_views(trial, batch, seed=1)
    return again is not None and again.input.shape == call.input.shape and not torch.equal(again.input, call.input)


def scored_views(trial: Trial, batch: Any, seed: int = 0) -> LossCall | None:
    """The cross-entropy over the batch's own views, of targets that the program makes, where no norm mixes samples."""
    watch = LossWatch(keep_dropout=False)
    with restored(trial), stilled(trial), _RunningStatistics(), watch:
        seed_all(seed)
        trial.train_step(copied(batch), 0)
    found = [call for call in watch.calls if call.kind == "cross_entropy" and _looks_for_views(call, batch)]
    return found[0] if found else None


def _looks_for_views(call: LossCall, batch: Any) -> bool:
    scores, target = call.input, call.target
    if scores.ndim != 2 or target.ndim != 1 or target.is_floating_point() or len(scores) < _FEW:
        return False
    whole = scores.shape[1] >= len(scores) - 1
    return whole and not any(
        leaf.shape == target.shape and torch.equal(beside(leaf, target), target) for _, leaf in leaves(batch)
    )


class _RunningStatistics(TorchFunctionMode):
    """Batch norm goes by these, whatever its mode: a program sets that within its step."""

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is not F.batch_norm:
            return func(*args, **(kwargs or {}))
        given = _signature.bind(*args, **(kwargs or {}))
        given.arguments["training"] = given.arguments.get("running_mean") is None
        return func(*given.args, **given.kwargs)


_signature = signature(F.batch_norm)
