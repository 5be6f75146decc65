"""Tables of labels in which each row has a one at its class."""

from __future__ import annotations

from collections.abc import Sequence

from mlcheck.core.patterns import pattern
from mlcheck.lint.values import Symbol, Tensor, Value, split_of, traces_of

_NAMED = pattern(r"one_?hot")
PRODUCTS = frozenset(["bmm", "matmul", "mm", "MatMult"])


def product(chances: Value, table: Value) -> Tensor | None:
    """`chances @ one_hot`: what a softmax gave to the rows, added up for each class, is a softmax's result still."""
    if not isinstance(chances, Tensor) or chances.kind != "softmax" or not isinstance(table, Symbol):
        return None
    if not _NAMED.search(table.name.lower()):
        return None
    return Tensor("softmax", chances.place, split_of(chances, table), traces_of(chances, table))


def product_of(function: str, values: Sequence[Value]) -> Tensor | None:
    """The same by a function: `torch.bmm(chances, one_hot)`."""
    return product(values[0], values[1]) if function in PRODUCTS and len(values) > 1 else None
