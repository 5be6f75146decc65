"""All pairs of predictions and targets that are written out, and of which a loss takes the mean: none is its own.

What keeps one of a row (the nearest, the k nearest) means its pairs. So does a distance between two sets, which
compares each with itself as well.
"""

from __future__ import annotations

import torch
from torch import Tensor

SUBTRACTIONS = {torch.sub, Tensor.sub, Tensor.__sub__, Tensor.__rsub__}
_EACH = {
    getattr(home, name) for home in (torch, Tensor) for name in ("pow", "square", "abs", "mul", "multiply", "absolute")
} | {Tensor.__pow__, Tensor.__mul__, Tensor.__abs__}
_WHOLE = {torch.mean, Tensor.mean, torch.sum, Tensor.sum}


class WrittenPairs:
    """Follows tables of differences, (n, n), as far as a mean or sum of all of them."""

    def __init__(self) -> None:
        self._tables: dict[int, int] = {}
        self._kept: list[Tensor] = []
        self._among_themselves = False
        self._reduced: set[int] = set()

    def see(self, func: object, tensors: list[Tensor], result: Tensor, compares: bool) -> int | None:
        """The number of the table that `result` is, where it `compares` predictions with targets."""
        if func in SUBTRACTIONS and len(tensors) == 2 and _is_table(tensors[0], tensors[1]):
            self._among_themselves |= not compares
            return self._know(result, len(self._kept)) if compares else None
        numbers = {self._tables.get(id(tensor)) for tensor in tensors}
        number = numbers.pop() if len(numbers) == 1 else None
        if number is not None and func in _EACH:
            self._know(result, number)
        elif number is not None and func in _WHOLE and not result.ndim:
            self._reduced.add(number)
        return None

    def whole(self, number: int) -> bool:
        """Whether all numbers of this table were made one, in a loss that compares nothing else in pairs."""
        return number in self._reduced and not self._among_themselves

    def _know(self, table: Tensor, number: int) -> int:
        self._tables[id(table)] = number
        self._kept.append(table)
        return number


def _is_table(one: Tensor, other: Tensor) -> bool:
    """(n, 1) and (1, n) or (n,), either way round."""
    column, row = (one, other) if one.shape[1:] == (1,) else (other, one)
    rows = column.shape[0] if column.ndim == 2 else 0
    return rows > 1 and column.shape == (rows, 1) and row.shape in ((1, rows), (rows,))
