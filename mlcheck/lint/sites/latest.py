"""What a name holds where it is read: the last binding above it that is certain to have run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mlcheck.lint.nodes import loads
from mlcheck.lint.sites.scopes import Binding, Context

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File

_DEPTH = 8


def latest(file: File, node: ast.Name, context: Context) -> Binding | None:
    """The binding that reaches this place; None where a branch may have made another, or a loop below."""
    around = list(context.outwards())
    above = [found for found in file.bindings(node.id, context) if _before(found.node, node)]
    if not above:
        return None
    last = above[-1]
    bound = next(outer for outer in last.context.outwards() if outer.kind != "with")  # which always runs its body
    return last if bound in around or _holds(bound, node) else None


def settled(file: File, node: ast.Name, context: Context) -> Binding | None:
    """As `latest`, where no line further down may have bound the name by the time that a loop comes round."""
    below = [found for found in file.bindings(node.id, context) if not _before(found.node, node)]
    return latest(file, node, context) if not any(_may_come_round(found, context) for found in below) else None


def _may_come_round(below: Binding, context: Context) -> bool:
    """Whether a binding further down may have run before: a loop is around both, or it is another function's."""
    around = list(context.outwards())
    for outer in below.context.outwards():
        if outer.kind == "loop" and outer in around:
            return True
        if outer.kind in ("function", "lambda", "class"):
            return next((each for each in around if each.kind in ("function", "lambda", "class")), None) is not outer
    return any(each.kind in ("function", "lambda", "class") for each in around)


def _holds(block: Context, node: ast.AST) -> bool:
    """Whether a loop or an arm of a branch goes on to the line of a node whose own context is not told."""
    around, line = block.node, getattr(node, "lineno", 0)
    if block.kind == "loop" and isinstance(around, ast.For | ast.AsyncFor | ast.While):
        lines = around.body
    elif block.kind == "if" and isinstance(around, ast.If):
        lines = around.body if block.arm == "body" else around.orelse
    else:
        return False
    return lines[0].lineno <= line <= (lines[-1].end_lineno or 0)


def reaching(file: File, node: ast.Name, context: Context) -> list[Binding]:
    """The bindings that may hold here: the last one above alone, where it is certain to have run in this very scope."""
    bindings = _within(file.bindings(node.id, context), context)
    last = latest(file, node, context) if len(bindings) > 1 else None
    if last is None or last.kind == "other" or last not in bindings:
        return bindings
    if last.value is not None and loads(last.value, node.id):
        return bindings  # `loader = fabric.setup(loader)`: what it held before is in it
    loops = []
    for outer in context.outwards():
        if outer is last.context:
            break
        if outer.kind in ("function", "lambda", "class"):
            return bindings  # of the code around a function it is not known which of it has run by then
        if outer.kind == "loop":
            loops.append(outer)
    again = [each for each in bindings if not set(loops).isdisjoint(each.context.outwards())]
    return [last, *(each for each in again if each is not last)]


def _within(bindings: list[Binding], context: Context) -> list[Binding]:
    """Of the names that `with` gives, that of the innermost one around a place, and no other."""
    if all(binding.kind != "with" for binding in bindings):
        return bindings
    around = [outer.node for outer in context.outwards() if outer.kind == "with"]
    entered = sorted((b for b in bindings if b.node in around), key=lambda binding: around.index(binding.node))
    return entered[:1] or [binding for binding in bindings if binding.kind != "with"]


def _before(binding: ast.AST, use: ast.AST) -> bool:
    """Whether the binding ends above the line of the use; parameters stand before everything."""
    if isinstance(binding, ast.arg):
        return True
    end = getattr(binding, "lineno", 0) if isinstance(binding, ast.For) else getattr(binding, "end_lineno", 0) or 0
    return end < getattr(use, "lineno", 0)


def source(file: File, node: ast.expr, context: Context) -> tuple[ast.expr, Context]:
    """The expression that a name was last assigned, followed through plain names; `y` in `a, b = x, y` too."""
    for _ in range(_DEPTH):
        if not isinstance(node, ast.Name):
            break
        found = latest(file, node, context)
        value = _assigned(found) if found is not None else None
        if found is None or value is None:
            break
        node, context = value, found.context
    return node, context


def _assigned(binding: Binding) -> ast.expr | None:
    return binding.value if binding.kind == "value" and isinstance(binding.value, ast.expr) else None


def origin(file: File, node: ast.expr, context: Context) -> tuple[ast.expr, Context]:
    """As `source`; where one of several values of a call was unpacked, the call."""
    node, context = source(file, node, context)
    if isinstance(node, ast.Name):
        found = latest(file, node, context)
        if found is not None and found.kind == "item" and isinstance(found.value, ast.expr):
            return found.value, found.context
    return node, context
