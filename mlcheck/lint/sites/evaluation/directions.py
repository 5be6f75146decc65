"""Comparisons that find the better score, under a test that says which way is better: `if mode == "min":`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import last_name

_ASKED = pattern(r"(?:^|_)(?:mode|direction|goal)$")
_BETTER = pattern(r"better|improv|best|monitor_op")
_WANTED = {"min": "lower", "minimize": "lower", "max": "higher", "maximize": "higher"}
_OTHER = {"lower": "higher", "higher": "lower"}


class Directed(NamedTuple):
    """A comparison of a score with the best, which scores it takes, and which it is to take."""

    compare: ast.Compare
    taken: str
    wanted: str


def directed(nodes: Iterable[ast.AST]) -> Iterator[Directed]:
    """Those in either arm of `if mode == "min"`, and in `mode == "min" and score < best`."""
    for node in nodes:
        if isinstance(node, ast.If):
            yield from _in_arms(node)
            for compare, way in _in_test(node.test):
                if _writes_down(node, compare):
                    yield Directed(compare, taken(compare), way)
        elif isinstance(node, ast.Assign) and _BETTER.search(last_name(node.targets[0]).lower()):
            yield from (Directed(compare, taken(compare), way) for compare, way in _in_test(node.value))


def _in_arms(node: ast.If) -> Iterator[Directed]:
    wanted = _wanted(node.test)
    arms = [(node.body, wanted)] if wanted else []
    if wanted and not any(isinstance(line, ast.If) for line in node.orelse[:1]):
        arms.append((node.orelse, _OTHER[wanted]))
    for arm, way in arms:
        yield from (Directed(compare, taken(compare), way) for compare in _compared(arm))


def _in_test(test: ast.expr) -> Iterator[tuple[ast.Compare, str]]:
    """The comparisons of `mode == "min" and a < b or mode == "max" and a > b`, and of a choice by the mode."""
    if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or):
        for part in test.values:
            yield from _in_test(part)
    elif isinstance(test, ast.BoolOp) and len(test.values) == 2:
        way, other = _wanted(test.values[0]), test.values[1]
        if way and isinstance(other, ast.Compare) and taken(other):
            yield other, way
    elif isinstance(test, ast.IfExp) and (way := _wanted(test.test)):
        for arm, told in ((test.body, way), (test.orelse, _OTHER[way])):
            if isinstance(arm, ast.Compare) and taken(arm):
                yield arm, told


def _wanted(test: ast.expr) -> str:
    """`lower` for `self.mode == "min"`."""
    match test:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant(value=str() as word)]):
            return _WANTED.get(word, "") if _ASKED.search(last_name(left).lower()) else ""
    return ""


def _compared(arm: list[ast.stmt]) -> Iterator[ast.Compare]:
    """`better = score < best`, `if score < best: best = score`, `is_better = lambda score, best: score < best`."""
    for line in arm:
        value: ast.AST = line
        if isinstance(line, ast.Assign) and _BETTER.search(last_name(line.targets[0]).lower()):
            value = line.value.body if isinstance(line.value, ast.Lambda) else line.value
        elif isinstance(line, ast.If) and isinstance(line.test, ast.Compare) and _writes_down(line, line.test):
            value = line.test
        if isinstance(value, ast.Compare) and taken(value):
            yield value


def _writes_down(branch: ast.If, compare: ast.Compare) -> bool:
    """`if score < best: best = score`."""
    sides = [ast.unparse(side) for side in _sides(compare)]
    lines = [line for line in branch.body if isinstance(line, ast.Assign)]
    return any([ast.unparse(line.targets[0]), ast.unparse(line.value)] in (sides, sides[::-1]) for line in lines)


def taken(compare: ast.Compare) -> str:
    """Which scores are taken for better than the best: `lower` of `score < best - delta`; "" of any other test."""
    if len(compare.ops) != 1 or not isinstance(compare.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return ""
    named = ["best" in last_name(side).lower() for side in _sides(compare)]
    if named.count(True) != 1:
        return ""
    up = isinstance(compare.ops[0], ast.Gt | ast.GtE)
    return "higher" if up == named[1] else "lower"


def _sides(compare: ast.Compare) -> tuple[ast.expr, ast.expr]:
    """Both sides, without what must be gained."""
    left, right = (
        side.left if isinstance(side, ast.BinOp) and isinstance(side.op, ast.Add | ast.Sub) else side
        for side in (compare.left, compare.comparators[0])
    )
    return left, right
