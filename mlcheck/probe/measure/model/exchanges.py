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
    tables = set() if dim else tables_of_pairs(call, module, arguments, before)
    worst = 0.0
    for stay, order in exchanges(rows):
        after = call.replay(reordered(arguments, order, dim), module)
        places = [
            place
            for place, (one, other) in enumerate(zip(before, after))
            if one.ndim > dim and one.shape == other.shape and one.shape[dim] == rows
        ]
        gaps = [
            difference(*(_of_rows(outputs[place], stay, dim, place in tables) for outputs in (before, after)))
            for place in places
        ]
        keeps_order = not dim and min(gaps, default=0.0) <= SINGLE_PRECISION_ROUNDING
        for gap, place in zip(gaps, places):
            moved = keeps_order and gap > SINGLE_PRECISION_ROUNDING and _only_moved(before[place], after[place])
            if gap > worst and not moved:
                worst = gap
    return worst


def tables_of_pairs(
    call: CapturedCall, module: torch.nn.Module, arguments: Arguments, outputs: list[Tensor]
) -> set[int]:
    """Which outputs hold a number for every pair of rows, as similarities do: one row less is one column less, too.

    A sum of one number a row and one a column is none: a column met a row by mistake.
    """
    both = call.rows, call.rows
    square = {i for i, one in enumerate(outputs) if one.ndim > 1 and one.shape[:2] == both and not _is_sum(one)}
    if not square:
        return square
    fewer = map_tensors(arguments, lambda tensor: tensor[:-1] if tensor.ndim and len(tensor) == call.rows else tensor)
    try:
        less = call.replay(fewer, module)
    except Exception:  # a model for one batch size
        return set()
    side = call.rows - 1
    return {place for place in square if len(less) > place and less[place].shape[:2] == (side, side)}


def _is_sum(table: Tensor) -> bool:
    values = table.double()
    rest = values - values[:, :1] - values[:1] + values[:1, :1]
    return bool(rest.abs().max() <= SINGLE_PRECISION_ROUNDING * values.abs().max())


def _of_rows(output: Tensor, stay: Tensor, dim: int, table: bool) -> Tensor:
    rows = output.index_select(dim, stay.to(output.device))
    return rows.index_select(1, stay.to(output.device)) if table else rows


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
