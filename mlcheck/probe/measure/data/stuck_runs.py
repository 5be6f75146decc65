"""Columns of a table that hold one value for a while and hardly ever the same twice otherwise: a sensor that stuck, a

join that failed for one file, a batch that was put together wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mlcheck.probe.measure.tree import leaves

FEW = 100
LEAST = 20
DIFFERENT = 0.95
MOST_COLUMNS = 512


@dataclass(frozen=True, slots=True)
class StuckRun:
    """`column` of the tensor `name` is `value` in the rows from `start` on, `length` of them, of `rows` in a row."""

    name: str
    column: int
    value: float
    start: int
    length: int
    rows: int


def stuck_in_batches(batches: Sequence[Any]) -> Iterator[StuckRun]:
    """Of the rows in the order of a pass."""
    first = dict(leaves(batches[0])) if batches else {}
    for name in (name for name, tensor in first.items() if tensor.ndim == 2):
        parts = [tensor for batch in batches for other, tensor in leaves(batch) if other == name]
        if len({tuple(part.shape[1:]) for part in parts}) == 1:
            yield from _runs(name, torch.cat([part.detach().cpu() for part in parts]))


def stuck_in_order(samples: Sequence[Mapping[str, Tensor]]) -> Iterator[StuckRun]:
    """Of samples in the order of a data set."""
    for name in (name for name, tensor in (samples[0] if samples else {}).items() if tensor.ndim == 1):
        rows = [sample[name] for sample in samples if name in sample]
        if len(rows) == len(samples) and len({row.shape for row in rows}) == 1:
            yield from _runs(name, torch.stack(rows))


def _runs(name: str, table: Tensor) -> Iterator[StuckRun]:
    rows, columns = table.shape
    if rows < FEW or not 2 <= columns <= MOST_COLUMNS or not table.is_floating_point():
        return
    same = table[1:] == table[:-1]
    for column in (same.sum(0) >= LEAST - 1).nonzero()[:, 0].tolist():
        values = table[:, column]
        start, length = _longest(same[:, column])
        inside = torch.zeros(rows, dtype=torch.bool)
        inside[start : start + length] = True
        others = values[~inside]
        different = len(torch.unique(others)) >= DIFFERENT * len(others)
        alone = not bool((others == values[start]).any())
        if LEAST <= length <= rows // 2 and different and alone and not bool(same[start : start + length - 1].all()):
            yield StuckRun(name, column, float(values[start]), start, length, rows)


def _longest(same: Tensor) -> tuple[int, int]:
    """Where the longest run of equal values begins, and how long it is."""
    best, start = (0, 1), 0
    for place, equal in enumerate(same.tolist(), 1):
        start = start if equal else place
        best = max(best, (start, place - start + 1), key=lambda run: run[1])
    return best
