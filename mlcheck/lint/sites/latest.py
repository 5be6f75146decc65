"""What a name holds where it is read: the last binding above it that is certain to have run."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

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
    return last if bound in around else None


def _before(binding: ast.AST, use: ast.AST) -> bool:
    """Whether the binding ends above the line of the use; parameters stand before everything."""
    if isinstance(binding, ast.arg):
        return True
    end = getattr(binding, "lineno", 0) if isinstance(binding, ast.For) else getattr(binding, "end_lineno", 0) or 0
    return end < getattr(use, "lineno", 0)


def source(file: File, node: ast.expr, context: Context) -> tuple[ast.expr, Context]:
    """The expression that a name was last assigned, followed through plain names."""
    for _ in range(_DEPTH):
        if not isinstance(node, ast.Name):
            break
        found = latest(file, node, context)
        if found is None or found.kind != "value" or not isinstance(found.value, ast.expr):
            break
        node, context = found.value, found.context
    return node, context


def origin(file: File, node: ast.expr, context: Context) -> tuple[ast.expr, Context]:
    """As `source`; where one of several values of a call was unpacked, the call."""
    node, context = source(file, node, context)
    if isinstance(node, ast.Name):
        found = latest(file, node, context)
        if found is not None and found.kind == "item" and isinstance(found.value, ast.expr):
            return found.value, found.context
    return node, context
