"""Batches that are padded by hand: `x = torch.zeros(n, longest)`, and `x[i, : len(row)] = row` for each row."""

from __future__ import annotations

import ast

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name, is_none, walk
from mlcheck.lint.sites.model import UNKNOWN, Call

_BEGUN = {"zeros": 0, "ones": 1, "zeros_like": 0, "ones_like": 1}


class Rows(NamedTuple):
    """The number that a tensor is full of at first, and what is written to the starts, or the ends, of its rows."""

    begun: object
    written: ast.expr
    starts: bool


def filled_rows(made: Call) -> Rows | None:
    """What becomes of the rows of a tensor that a function makes and fills; None where that is not all alike."""
    names, begun = made.file.names_given(made.node), _number(made)
    if made.function is None or len(names) != 1 or begun is UNKNOWN:
        return None
    lines = [line for line in made.function.all(ast.Assign) if line.value is not made.node]
    written = [(target, line.value) for line in lines for target in line.targets if _is_part(target, names[0])]
    ends = [_is_start(target) for target, _ in written]
    if not written or len(set(ends)) != 1 or ends[0] is None:
        return None
    return Rows(begun, written[0][1], ends[0])


def _number(made: Call) -> object:
    """What `torch.zeros`, `torch.ones`, `torch.full` and their like fill with."""
    library, _, last = made.file.called(made.node, made.context).rpartition(".")
    if library not in ("torch", "numpy"):
        return UNKNOWN
    if last in _BEGUN:
        return _BEGUN[last]
    return made.constant("fill_value", 1) if last in ("full", "full_like") else UNKNOWN


def _is_part(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Subscript) and any(is_name(part, name) for part in walk(target.value))


def _is_start(target: ast.expr) -> bool | None:
    """True of `x[i, :n]` and `x[i][:n]`, False of `x[i, n:]`, None of all else."""
    parts = target.slice.elts if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Tuple) else []
    match parts, target:
        case [_, ast.Slice() as cut], _:
            pass
        case [], ast.Subscript(value=ast.Subscript(), slice=ast.Slice() as cut):
            pass
        case _:
            return None
    lower = None if cut.lower is None or (isinstance(cut.lower, ast.Constant) and cut.lower.value == 0) else cut.lower
    if cut.step is not None or (lower is None) == (cut.upper is None or is_none(cut.upper)):
        return None
    return lower is None
