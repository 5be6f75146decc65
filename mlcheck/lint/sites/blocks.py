"""Loops with the statements before and after them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.scopes import Context


class LoopSite(NamedTuple):
    """A `for` loop of a module or function, and the statements before and after it, also around its `with`."""

    file: File
    scope: ast.AST
    context: Context
    node: ast.For
    before: list[ast.stmt]
    after: list[ast.stmt]


def for_loops(file: File) -> tuple[LoopSite, ...]:
    """The `for` loops of a file; `context` is that of the function around each, or of the module."""
    return file.sites.once_of(_for_loops, file)


def _for_loops(file: File) -> tuple[LoopSite, ...]:
    holding = {_scope_of(context) for _, context in file.walk.loops} if "for " in file.text else ()
    return tuple(
        LoopSite(file, scope, context, node, before, after)
        for scope, context in file.scopes()
        if scope in holding
        for node, before, after in _loops(getattr(scope, "body", []), [], [])
    )


def _scope_of(context: Context) -> ast.AST:
    """The function that a context is part of, or the module."""
    *_, module = around = list(context.outwards())
    return next((outer.node for outer in around if outer.kind == "function"), module.node)


def _loops(
    block: list[ast.stmt], before: list[ast.stmt], after: list[ast.stmt]
) -> Iterator[tuple[ast.For, list[ast.stmt], list[ast.stmt]]]:
    for number, statement in enumerate(block):
        if isinstance(statement, ast.For):
            yield statement, [*before, *block[:number]], [*block[number + 1 :], *after]
        if isinstance(statement, ast.With | ast.AsyncWith | ast.Try) and not _catches(statement):
            rest = [*getattr(statement, "orelse", ()), *getattr(statement, "finalbody", ())]
            yield from _loops(statement.body, [*before, *block[:number]], [*rest, *block[number + 1 :], *after])
            yield from _loops(rest, [], [])
        elif not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for inner in blocks(statement):
                yield from _loops(inner, [], [])


def _catches(statement: ast.stmt) -> bool:
    """Whether what follows on a `try` may run although its body came to no end."""
    return any(not isinstance(handler.body[-1], ast.Raise) for handler in getattr(statement, "handlers", ()))


def straight(block: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block, and those of each `with` and `try` in place of it: they run in this order."""
    for statement in block:
        if isinstance(statement, ast.With | ast.AsyncWith | ast.Try):
            yield from straight(statement.body)
            yield from straight([*getattr(statement, "orelse", ()), *getattr(statement, "finalbody", ())])
        else:
            yield statement


def blocks(statement: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements right inside a function, a loop, a branch or the like."""
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for handler in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield handler.body
