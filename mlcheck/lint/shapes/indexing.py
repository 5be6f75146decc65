"""What indexing leaves of a shape: `x[:, 0]`, `x[..., None]`, `x[3]`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Hashable

from mlcheck.core.dataclasses import replace
from mlcheck.lint.shapes import tables
from mlcheck.lint.values import Shape, Symbol, Tensor, Value

_END = sys.maxsize


def of_item(owner: Value, index: ast.expr, result: Value) -> Value:
    """`owner[index]`, with its shape."""
    if not isinstance(owner, Tensor | Symbol) or owner.shape is None or not isinstance(result, Tensor | Symbol):
        return result
    if isinstance(owner, Symbol) and (taken := tables.rows(owner, index, result)) is not None:
        return taken
    if isinstance(owner, Symbol) and tables.is_table(owner):
        return replace(result, shape=tables.columns(owner, index))
    return replace(result, shape=of_index(owner.shape, index))


def of_taken(owner: Value, index: Value, result: Value) -> Value:
    """`owner[index]` with an index of known shape: a number, or a row of positions, which may be a mask."""
    shape, at = (value.shape if isinstance(value, Tensor | Symbol) else None for value in (owner, index))
    if shape is None or shape.open or not shape.dims or at is None or at.open or len(at.dims) > 1:
        return result
    if not isinstance(result, Tensor | Symbol) or (isinstance(owner, Symbol) and tables.is_table(owner)):
        return result
    as_long = at.dims == shape.dims[:1] or not all(isinstance(size, int) for size in (*at.dims, shape.dims[0]))
    front = (None,) if at.dims and as_long else at.dims
    return replace(result, shape=Shape((*front, *shape.dims[1:])))


def of_index(shape: Shape | None, index: ast.expr) -> Shape | None:
    """`x[:, 0]`, `x[..., None]`, `x[3]`, `x[:5]`: what remains of the dimensions."""
    if shape is None:
        return None
    parts = list(index.elts) if isinstance(index, ast.Tuple) else [index]
    kinds = [_index_kind(part) for part in parts]
    if "?" in kinds or kinds.count("...") > 1:
        return None
    if "..." in kinds:
        cut = kinds.index("...")
        tail = _indexed(list(reversed(shape.dims)), list(reversed(kinds[cut + 1 :])))
        if tail is None or (shape.open and cut):
            return None
        front = _indexed(list(reversed(tail)), kinds[:cut])
        return Shape(tuple(front), shape.open) if front is not None else None
    if shape.open:
        return None
    left = _indexed(list(shape.dims), kinds)
    return Shape(tuple(left)) if left is not None else None


def _indexed(dims: list[Hashable], kinds: list[str]) -> list[Hashable] | None:
    """The dimensions after these indices, which stand at their front; a number is that of the first to be kept."""
    made: list[Hashable] = []
    rest = list(dims)
    for kind in kinds:
        if kind == "new":
            made.append(1)
            continue
        if not rest:
            return None
        size = rest.pop(0)
        if kind == "all":
            made.append(size)
        elif kind == "some":
            made.append(None)
        elif ":" in kind:
            left = len(range(*slice(*map(int, kind.split(":"))).indices(size))) if isinstance(size, int) else 0
            made.append(left if left > 1 else None)
        elif kind.isdigit():
            trial = int(kind) < 2  # one sample alone, to see that it runs
            made.append(min(int(kind), size) if isinstance(size, int) and not trial else None)
    return made + rest


def _index_kind(part: ast.expr) -> str:
    match part:
        case ast.Slice(lower=None, upper=None, step=None):
            return "all"
        case ast.Slice(lower=None, upper=ast.Constant(value=int(first)), step=None):
            return str(first)
        case ast.Slice(lower=lower, upper=upper, step=None):
            bounds = (_number(lower, 0), _number(upper, _END))
            return "some" if None in bounds else ":".join(map(str, bounds))
        case ast.Slice():
            return "some"
        case ast.Constant(value=None):
            return "new"
        case ast.Constant(value=v) if v is ...:
            return "..."
        case ast.Constant(value=int()):
            return "one"
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int())):
            return "one"
    return "?"


def _number(bound: ast.expr | None, default: int) -> int | None:
    """A bound that is written down: `1`, `-1`, or none at all."""
    match bound:
        case None:
            return default
        case ast.Constant(value=int(number)):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(number))):
            return -number
    return None
