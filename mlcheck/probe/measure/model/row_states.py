"""Whether what a model keeps between calls has a place for each row of the batch, or is as long by chance."""

from __future__ import annotations

from torch import Tensor

from mlcheck.trial.tensors import same_bits


def may_hold_rows(tensor: Tensor, rows: int) -> bool:
    return rows in tensor.shape[:2]


def holds_rows(before: Tensor, after: Tensor, rows: int) -> bool:
    """By what a call with one row less made of `before`, which has `rows` places: it left out the last one."""
    if after.shape != before.shape or rows < 2:
        return True
    dim = list(before.shape[:2]).index(rows)
    return same_bits(before.select(dim, rows - 1), after.select(dim, rows - 1))
