"""Tables with a row for each place of a sequence that no step reads, in a model that does not know the order.

Neither proves a fault alone: a causal model may hold a mask that it does without, a model of sets has no order. That
a table for places lies there, and the places are not told apart, are two ends of one omission.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.probe.measure.drive import exclusively_evaluating, first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.model_calls import CapturedCall, capture
from mlcheck.probe.measure.training.gradients import named_parameters
from mlcheck.probe.measure.tree import copied, leaves, map_tensors
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_FEWEST_PLACES = 4
_ROUNDING, _CONTENT = 1e-5, 1e-3


@dataclass(frozen=True, slots=True)
class UnreadTables:
    """The tables that no step reads, of a `model` to which its `places` in another order are all the same."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    model: str
    places: int
    unread: tuple[str, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        with restored(trial):
            call = capture(trial)
        inputs = [tensor for _, tensor in leaves((call.args, call.kwargs)) if tensor.ndim > 1]
        lengths = {tensor.shape[1] for tensor in inputs}
        places = lengths.pop() if len(lengths) == 1 else 0
        tables = dict(_tables(call.module, places)) if places >= _FEWEST_PLACES else {}
        if not tables:
            raise NotMeasured("no model of sequences holds a buffer with a row for each place")
        with exclusively_evaluating(iter(trial.models.values())):
            unread = [name for name, table in tables.items() if not _is_read(call, table)]
            unread = unread if unread and _knows_no_order(call, places) else []
        if unread:
            batch = first_batches(trial, 1)[0]
            expected = _stepped(trial, batch)
            unread = [name for name in unread if _is_same(trial, expected, _stepped(trial, batch, tables[name]))]
        if not unread:  # a layer beside them may be unused all the same
            raise NotMeasured("the tables with a row for each place are read, or the model knows the order without")
        return cls(call.name, places, tuple(unread))


def _tables(module: nn.Module, places: int) -> Iterator[tuple[str, Tensor]]:
    """Buffers of numbers that differ from row to row, with at least as many rows as there are places."""
    for name, buffer in module.named_buffers():
        table = buffer.squeeze()
        if table.ndim == 2 and table.is_floating_point() and len(table) >= places and table.shape[1] > 1:
            if not torch.equal(table, table[:1].expand_as(table)):
                yield name, buffer


def _is_read(call: CapturedCall, table: Tensor) -> bool:
    before = call.replay()
    with _Blotted(table):
        return not _agree(before, call.replay())


def _stepped(trial: Trial, batch: Any, table: Tensor | None = None) -> list[Tensor]:
    """All weights after a step, with a table whose numbers are none."""
    with restored(trial), _Blotted(table):
        seed_all(0)
        trial.train_step(copied(batch), 0)
        return [weight.detach().clone() for weight in named_parameters(trial.models)]


def _is_same(trial: Trial, expected: list[Tensor], weights: list[Tensor]) -> bool:
    """Of a program that draws its batches itself, which are others in every step: whether numbers are left."""
    if not trial.draws_batches:
        return _agree(expected, weights)
    return all(bool(weight.isfinite().all()) for weight in weights)


class _Blotted:
    """Within, a table holds no numbers: whoever reads it has none either."""

    def __init__(self, table: Tensor | None) -> None:
        self._table = table
        self._kept = None if table is None else table.clone()

    def __enter__(self) -> None:
        if self._table is not None:
            self._table.fill_(torch.nan)

    def __exit__(self, *_: object) -> None:
        if self._table is not None and self._kept is not None:
            self._table.copy_(self._kept)


def _knows_no_order(call: CapturedCall, places: int) -> bool:
    """Whether tokens in another order are the same to it, place by place or as a whole, and other tokens are not."""
    order = torch.arange(places).roll(1).flip(0)
    before, moved, others = call.replay(), _given(call, order), _given(call, None)
    pairs = [(one, two, three) for one, two, three in zip(before, moved, others) if one.is_floating_point()]
    return bool(pairs) and all(
        min(_gap(like, two) for like in (one, *_moved(one, order))) <= _ROUNDING and _gap(one, three) > _CONTENT
        for one, two, three in pairs
    )


def _given(call: CapturedCall, order: Tensor | None) -> list[Tensor]:
    """With the places in this order; with the samples exchanged where none is given."""

    def change(tensor: Tensor) -> Tensor:
        return tensor.roll(1, 0) if order is None else next(_moved(tensor, order), tensor)

    return call.replay(map_tensors((call.args, call.kwargs), change))


def _moved(tensor: Tensor, order: Tensor) -> Iterator[Tensor]:
    """The places in this order, along each dimension that may be theirs."""
    for dim in range(1, tensor.ndim):
        if tensor.shape[dim] == len(order):
            yield tensor.index_select(dim, order.to(tensor.device))


def _gap(one: Tensor, other: Tensor) -> float:
    scale = float(one.abs().max()) or 1.0
    return float((one - other).abs().max()) / scale if one.shape == other.shape else float("inf")


def _agree(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(map(torch.equal, one, other))
