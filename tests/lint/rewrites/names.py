"""The names that code reads and binds."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

_HARD: tuple[type[ast.AST], ...] = (
    ast.Lambda,
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Global,
    ast.Nonlocal,
)
_HARD += (ast.Import, ast.ImportFrom, ast.Yield, ast.YieldFrom, ast.Await, ast.Delete, ast.NamedExpr)


def is_simple(code: Iterable[ast.AST]) -> bool:
    """Whether its names can be told at sight: no function, import or declaration stands in it."""
    return not any(isinstance(node, _HARD) for part in code for node in ast.walk(part))


def runs_through(body: Sequence[ast.AST]) -> bool:
    """Whether a block is left at its end alone."""
    leaving = (ast.Return, ast.Break, ast.Continue)
    return is_simple(body) and not any(isinstance(node, leaving) for part in body for node in ast.walk(part))


def read(code: Iterable[ast.AST]) -> set[str]:
    found = {node.id for node in _names(code) if isinstance(node.ctx, ast.Load)}
    grown = (node.target for part in code for node in ast.walk(part) if isinstance(node, ast.AugAssign))
    return found | {target.id for target in grown if isinstance(target, ast.Name)}


def bound(code: Iterable[ast.AST]) -> set[str]:
    return {node.id for node in _names(code) if isinstance(node.ctx, ast.Store)}


def of_comprehensions(code: Iterable[ast.AST]) -> set[str]:
    found = (node.target for part in code for node in ast.walk(part) if isinstance(node, ast.comprehension))
    return bound(found)


def surely_bound(body: Iterable[ast.stmt]) -> set[str]:
    """What every way through a block binds."""
    return bound(line for line in body if isinstance(line, ast.Assign | ast.AugAssign | ast.AnnAssign))


def parameters(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in function.args.args]


def has_plain_parameters(function: ast.FunctionDef) -> bool:
    given = function.args
    return not (given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs)


def _names(code: Iterable[ast.AST]) -> list[ast.Name]:
    return [node for part in code for node in ast.walk(part) if isinstance(node, ast.Name)]
