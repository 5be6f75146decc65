"""`items[a:b]`."""

from __future__ import annotations

import ast

from mlcheck.lint.interpret import containers
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.values import Symbol, Tensor, Tuple, Value, split_of, traces_of


def slice_of(m: Machine, owner: Value, bounds: ast.Slice) -> Value:
    found = containers.contents(m, owner)
    if isinstance(found, Tuple):
        lower, upper = _bound(bounds.lower), _bound(bounds.upper)
        if not isinstance(lower, str) and not isinstance(upper, str) and not found.open and bounds.step is None:
            return Tuple(found.items[lower:upper])
        return Tuple(found.items, True)
    if isinstance(owner, Tensor):
        return owner
    cut = m.fresh()
    m.store.set(("there", cut), True)
    return Symbol(cut, "", split_of(owner), traces_of(owner))


def _bound(end: ast.expr | None) -> int | str | None:
    """A literal bound of a slice; `?` for one that is not known."""
    match end:
        case None:
            return None
        case ast.Constant(value=int() as number):
            return number
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() as number)):
            return -number
    return "?"
