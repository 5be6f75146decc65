"""What a program is told that asks for the size of a tensor."""

from __future__ import annotations

from collections.abc import Hashable

from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.shapes import rules
from mlcheck.lint.shapes.algebra import position
from mlcheck.lint.values import Args, Symbol, Tensor, Tuple, Value


def length(m: Machine, value: Value) -> Value | None:
    """`len(x)` of a tensor whose first size is known."""
    shape = rules.of(value)
    size = shape.dims[0] if shape is not None and shape.dims and not shape.open else None
    return rules.as_value(size, m) if isinstance(size, int) or _is_key(size) else None


def asked_size(m: Machine, owner: Tensor | Symbol, args: Args) -> Value | None:
    """`x.size()` and `x.size(0)`, as `x.shape` and `x.shape[0]`."""
    shape, place = owner.shape, rules.number(args[0]) if len(args) == 1 else None
    if shape is None or (shape.open and (place is None or place >= 0)):
        return None
    if not args:
        return Tuple(tuple(rules.as_value(size, m) for size in shape.dims))
    at = position(shape, place) if place is not None else None
    size = shape.dims[at] if at is not None and at < len(shape.dims) else None
    return rules.as_value(size, m) if isinstance(size, int) or _is_key(size) else None


def _is_key(size: Hashable) -> bool:
    return isinstance(size, tuple) and size[:1] == ("size",)
