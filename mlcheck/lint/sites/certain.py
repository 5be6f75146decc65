"""Whether a call that stands in a choice is certain to run: `if kind == "batch": return nn.BatchNorm2d(width)`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.entering import Entered
from mlcheck.lint.sites.guards import conditions
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.origins import callers

_HANDS, _MANY = 3, 12


def is_certain(call: Call) -> bool:
    """Whether no test decides about it, or one does that a call of the function around it answers with constants."""
    function = call.function
    if any(outer.kind == "lambda" for outer in call.context.outwards()) or _is_picked(call):
        return False
    if not conditions(call.context) and not (function is not None and _earlier(function, call.node)):
        return True
    return function is not None and any(_is_reached(call, way) for way in _ways(function, _HANDS))


def _is_picked(call: Call) -> bool:
    """One entry of a table that is looked up where it is written down, or one arm of a conditional expression."""
    function = call.function
    for node in function.nodes if function is not None else walk(call.file.module.source.tree):
        if isinstance(node, ast.IfExp):
            choices = [node.body, node.orelse]
        elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Dict):
            choices = node.value.values
        else:
            continue
        if any(part is call.node for choice in choices for part in walk(choice)):
            return True
    return False


def _earlier(function: Function, node: ast.AST) -> list[ast.If]:
    """The branches above it that leave the function."""
    above = (line for line in function.node.body if isinstance(line, ast.If))
    line_of = getattr(node, "lineno", 0)
    return [
        line
        for line in above
        if (line.end_lineno or 0) < line_of and any(isinstance(part, ast.Return) for part in walk(line))
    ]


def _is_reached(call: Call, way: Entered) -> bool:
    passed = all(way.answer(line.test) is False for line in _earlier(way.function, call.node))
    return passed and way.runs(call.context)


def _ways(function: Function, hands: int) -> Iterator[Entered]:
    """How the function may be entered, with the calls that lead there."""
    above = list(callers(function.file.sites, function))
    for call in above if len(above) <= _MANY else ():
        outer = list(_ways(call.function, hands - 1)) if call.function is not None and hands else []
        yield from [Entered(function, call, each) for each in outer] or [Entered(function, call)]
