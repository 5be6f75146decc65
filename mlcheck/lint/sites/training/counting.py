"""Tests that count batches, as `(i + 1) % every == 0`: tried out for the first batches of a loop."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.nodes import is_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.iteration import counter_of
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.scopes import Context

_MANY: Final = 10**6
"""The length of a loader, and the end of a range: a number that no batch that is tried reaches."""
_PERIOD: Final = 4
_TRIED: Final = 3 * _PERIOD
_SHORT: Final = 11
"""The length of a loader whose last batch is tried: one that no small period divides."""
_LENGTH: Final = "len()"
_DEPTH: Final = 12
_OPERATORS: Final[dict[type[ast.AST], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


class Branch(NamedTuple):
    """A test that was answered on the way to a place."""

    test: ast.expr
    holds: bool
    context: Context


def branches(context: Context, loop: Context | None) -> list[Branch]:
    """The answers that lead to a place within a loop, or within its function where there is none."""
    found = []
    for outer in context.outwards():
        if outer is loop or outer.kind in ("function", "lambda", "class", "module"):
            break
        if isinstance(outer.node, ast.If | ast.IfExp) and outer.outer is not None:
            found.append(Branch(outer.node.test, outer.arm == "body", outer.outer))
    return found


def meet(file: File, loop: Context, first: list[Branch], second: list[Branch]) -> bool:
    """Whether some batch certainly takes both ways: all of the tests can be computed from its number."""
    counter = counter_of(loop.node)
    ways = [*first, *second]
    periods = {ast.unparse(part) for branch in ways for part in _periods(file, branch)}
    if counter is None or len(periods) > 1:
        return False
    name, start = counter
    tried = [(number, _MANY) for number in range(start, start + _TRIED)] + [(start + _SHORT - 1, _SHORT)]
    for number, length in tried:
        known = {name: number, _LENGTH: length, **dict.fromkeys(periods, _PERIOD)}
        answers = [_compute(file, way.test, way.context, known) for way in ways]
        if all(answer is not None and bool(answer) is way.holds for answer, way in zip(answers, ways, strict=True)):
            return True
    return False


def are_alike(file: File, first: list[Branch], second: list[Branch]) -> bool:
    """Whether two places stand behind one and the same test with the same answer, and behind nothing else."""
    return len(first) == len(second) == 1 and _written(file, first[0]) == _written(file, second[0])


def _written(file: File, branch: Branch) -> tuple[str, bool]:
    node, holds = source(file, branch.test, branch.context)[0], branch.holds
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node, holds = source(file, node.operand, branch.context)[0], not holds
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.NotEq) and len(node.ops) == 1:
        node, holds = ast.Compare(node.left, [ast.Eq()], node.comparators), not holds
    return ast.unparse(node), holds


def _periods(file: File, branch: Branch) -> list[ast.expr]:
    """What numbers are divided by in a test, where the text does not tell how much it is."""
    tests = [branch.test]
    tests += [source(file, part, branch.context)[0] for part in walk(branch.test) if isinstance(part, ast.Name)]
    return [
        part.right
        for test in tests
        for part in walk(test)
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mod) and not isinstance(part.right, ast.Constant)
    ]


def _compute(file: File, node: ast.expr, context: Context, known: Mapping[str, int], depth: int = _DEPTH) -> Any:
    """What an expression comes to for one batch; None where it cannot be told."""
    if depth == 0:
        return None
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, int) else None
    if isinstance(node, ast.Name | ast.Attribute) and ast.unparse(node) in known:
        return known[ast.unparse(node)]
    if isinstance(node, ast.Name):
        made, where = source(file, node, context)
        return None if made is node else _compute(file, made, where, known, depth - 1)
    if isinstance(node, ast.Call):
        return known.get(_LENGTH) if is_name(node.func, "len") else None
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _compute(file, node.operand, context, known, depth - 1)
        return None if inner is None else not inner
    if isinstance(node, ast.BoolOp):
        parts = [_compute(file, part, context, known, depth - 1) for part in node.values]
        ends = isinstance(node.op, ast.Or)
        if any(part is not None and bool(part) is ends for part in parts):
            return ends
        return None if None in parts else not ends
    if isinstance(node, ast.BinOp):
        return _apply(file, node.op, node.left, node.right, context, known, depth - 1)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _apply(file, node.ops[0], node.left, node.comparators[0], context, known, depth - 1)
    return None


def _apply(
    file: File, kind: ast.AST, left: ast.expr, right: ast.expr, context: Context, known: Mapping[str, int], depth: int
) -> Any:
    sides = [_compute(file, side, context, known, depth) for side in (left, right)]
    apply = _OPERATORS.get(type(kind))
    if apply is None or None in sides or (isinstance(kind, ast.Mod | ast.FloorDiv) and sides[1] == 0):
        return None
    return apply(*sides)
