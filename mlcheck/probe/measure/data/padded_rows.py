"""Lengths and masks of a batch beside the padded sequences they belong to: row by row, by where the padding begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial

BATCHES = 3
FEW_LENGTHS = 3


@dataclass(frozen=True, slots=True)
class Told:
    """`name` tells how long the rows of `sequence` are: `rows` have the lengths that it tells of others."""

    name: str
    sequence: str
    rows: int
    of: int
    row: int
    told: int
    found: int


@dataclass(frozen=True, slots=True)
class PaddedRows:
    """`exchanged` tell, in every batch, the lengths that a sequence has, in another order; `agreeing` in its own."""

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 1

    exchanged: tuple[Told, ...]
    agreeing: tuple[str, ...]
    batches: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few batches, whatever the limit
        seen = [_compared(batch) for batch in first_batches(trial, BATCHES)]
        names = {name for found in seen for name in found}
        agreeing = tuple(sorted(n for n in names if any(found.get(n, _NONE) is None for found in seen)))
        wrong = [name for name in sorted(names) if all(isinstance(found.get(name), Told) for found in seen)]
        exchanged = tuple(told for name in wrong if isinstance(told := seen[0][name], Told))
        if not agreeing and not exchanged:
            raise NotMeasured("no lengths or mask of padded sequences were seen in the batches")
        return cls(exchanged, agreeing, len(seen))


_NONE = object()


def _compared(batch: Any) -> dict[str, Told | None]:
    """What tells the lengths of some sequence: None where it tells each row its own."""
    tensors = [(name, leaf.detach().cpu()) for name, leaf in leaves(batch) if leaf.layout is torch.strided]
    ends = {name: found for name, leaf in tensors if (found := _ends(leaf)) is not None}
    orders = [leaf for _, leaf in tensors if _is_order(leaf)]
    seen: dict[str, Told | None] = {}
    for name, leaf in tensors:
        told = _lengths(leaf)
        near = {place: found for place, found in ends.items() if told is not None and place != name}
        same = [place for place, found in near.items() if torch.equal(_sorted(found), _sorted(told))]
        if told is None or not same or len(set(told.tolist())) < FEW_LENGTHS:
            continue
        if any(torch.equal(near[place], told) for place in same):
            seen[name] = None
        elif not any(torch.equal(near[place][order], told) for place in same for order in orders):
            seen[name] = _told(name, same[0], told, near[same[0]])
    return seen


def _sorted(values: Tensor | None) -> Tensor:
    return torch.zeros(0) if values is None else values.sort().values


def _told(name: str, place: str, told: Tensor, found: Tensor) -> Told:
    wrong = told != found
    row = int(wrong.nonzero()[0])
    return Told(name, place, int(wrong.sum()), len(told), row, int(told[row]), int(found[row]))


def _ends(leaf: Tensor) -> Tensor | None:
    """Where the padding of each row begins: behind the last place that is not what the rows end in."""
    if leaf.ndim < 2 or leaf.shape[1] < 2 or len(leaf) < FEW_LENGTHS or leaf.dtype is torch.bool or not leaf.numel():
        return None
    last = leaf[:, -1].reshape(len(leaf), -1)
    filled = (last == last[:, :1]).all(1)
    if not filled.any():
        return None
    pad = last[filled][:, 0].mode().values
    alive = (leaf.reshape(*leaf.shape[:2], -1) != pad).any(2)
    places = torch.arange(1, leaf.shape[1] + 1)
    return (alive * places).max(1).values


def _lengths(leaf: Tensor) -> Tensor | None:
    """Whole numbers, one a row, or the ones of a mask, which come first."""
    if leaf.is_floating_point() or leaf.is_complex() or len(leaf.shape) not in (1, 2) or len(leaf) < FEW_LENGTHS:
        return None
    if leaf.ndim == 1:
        return leaf.long() if leaf.dtype is not torch.bool and int(leaf.min()) > 0 else None
    mask = leaf.long()
    if int(mask.min()) < 0 or int(mask.max()) != 1 or bool((mask.diff(dim=1) > 0).any()):
        return None
    return mask.sum(1)


def _is_order(leaf: Tensor) -> bool:
    """Whether it says in which order rows were put."""
    return leaf.ndim == 1 and not leaf.is_floating_point() and torch.equal(leaf.sort().values, torch.arange(len(leaf)))
