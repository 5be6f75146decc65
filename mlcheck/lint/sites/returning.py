"""What a function of the project returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.scopes import Context


def returned(function: Function) -> list[tuple[ast.expr, Context]]:
    """What a function returns, with the branch it stands in."""
    return function.file.sites.once_of(_with_branches, function)


def _with_branches(function: Function) -> list[tuple[ast.expr, Context]]:
    arms: dict[int, list[tuple[ast.If, str]]] = {}
    todo: list[tuple[list[ast.stmt], list[tuple[ast.If, str]]]] = [(function.node.body, [])]
    while todo:
        block, around = todo.pop()
        for line in block:
            if isinstance(line, ast.Return):
                arms[id(line.value)] = around
            elif isinstance(line, ast.FunctionDef | ast.ClassDef):
                continue
            for part in ("body", "orelse", "finalbody"):
                inner = getattr(line, part, None)
                if isinstance(inner, list):
                    todo.append((inner, [*around, (line, part)] if isinstance(line, ast.If) else around))
    found = []
    for returned in returns(function):
        context = function.inner
        for test, arm in arms.get(id(returned), ()):
            context = Context("if", test, context, function.inner.scope, arm)
        found.append((returned, context))
    return found


def returns(function: Function) -> Iterator[ast.expr]:
    """What a function returns, the functions inside it left out."""
    todo: list[ast.AST] = list(function.node.body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        elif isinstance(node, ast.stmt | ast.excepthandler | ast.match_case) and not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ):
            todo.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))
