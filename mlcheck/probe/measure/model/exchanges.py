"""Samples of a batch that change places around some that stay."""

from __future__ import annotations

import torch
from torch import Tensor

from mlcheck.probe.measure.model.model_calls import CapturedCall
from mlcheck.probe.measure.modules import Arguments
from mlcheck.probe.measure.tree import map_tensors

SINGLE_PRECISION_ROUNDING = 1e-4


def exchanges(rows: int) -> list[tuple[Tensor, Tensor]]:
    """Rows that stay, and the order in which all are given: the others change places, and one of them is doubled.

    Row 0 alone stays, and then every second row: what meets in row 0 may be nothing, as a unit that is dead.
    """
    found = [(torch.tensor([0]), torch.tensor([0, *reversed(range(2, rows)), 2]))]
    if rows >= 4:
        turn = torch.arange(rows)
        others = turn[1::2].clone()
        turn[1::2] = torch.cat([others[1:], others[-1:]])
        found.append((torch.arange(0, rows, 2), turn))
    return found


def reordered(arguments: Arguments, order: Tensor, dim: int = 0) -> Arguments:
    def exchange(tensor: Tensor) -> Tensor:
        fits = tensor.ndim > dim and tensor.shape[dim] == len(order)
        return tensor.index_select(dim, order.to(tensor.device)) if fits else tensor

    return map_tensors(arguments, exchange)  # type: ignore[no-any-return]


def deviation(call: CapturedCall, module: torch.nn.Module, arguments: Arguments, dim: int = 0, rows: int = 0) -> float:
    rows = rows or call.rows
    before = call.replay(arguments, module)
    worst = 0.0
    for stay, order in exchanges(rows):
        after = call.replay(reordered(arguments, order, dim), module)
        pairs = [(one, other) for one, other in zip(before, after) if one.ndim > dim and one.shape == other.shape]
        mine = [(one, other) for one, other in pairs if one.shape[dim] == rows]
        gaps = [
            difference(*(tensor.index_select(dim, stay.to(tensor.device)) for tensor in (one, other)))
            for one, other in mine
        ]
        keeps_order = not dim and min(gaps, default=0.0) <= SINGLE_PRECISION_ROUNDING
        for gap, (one, other) in zip(gaps, mine):
            if gap > worst and not (keeps_order and gap > SINGLE_PRECISION_ROUNDING and _only_moved(one, other)):
                worst = gap
    return worst


def _only_moved(before: Tensor, after: Tensor) -> bool:
    """Whether all rows were there before, at whatever place.

    A model may sort its rows by length, and restore the order of its answers only.
    """
    known = before.flatten(1).double()
    return all(
        bool(((known - row).abs().amax(1) <= SINGLE_PRECISION_ROUNDING * row.abs().max()).any())
        for row in after.flatten(1).double()
    )


def difference(one: Tensor, other: Tensor) -> float:
    """The largest difference over the largest finite number; 0 when bitwise equal, infinite where it is no number."""
    here, there = one.double(), other.double()
    same = (here == there) | (here.isnan() & there.isnan())
    if bool(same.all()):
        return 0.0
    scale = float(here[here.isfinite()].abs().max()) if bool(here.isfinite().any()) else 1.0
    gap = float((here - there)[~same].abs().max())
    return gap / max(scale, 1e-30) if gap == gap else float("inf")
