"""Running totals in one form: `total = total + x` of what begins as a number is read as `total += x`, `/` likewise."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from typing import TypeGuard

from mlcheck.core.patterns import pattern

_REPEATED = pattern(r"^[ \t]*(\w+) = \1 [+/] ", re.MULTILINE)
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def write_additions(tree: ast.Module, text: str) -> None:
    """Rewrite them in the tree, wherever in its scope the name holds nothing but numbers and what is added to them.

    Of a tensor the two differ: `x += y` overwrites what others may still hold.
    """
    names = set(_REPEATED.findall(text))
    for scope in ast.walk(tree) if names else ():
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            _rewrite(scope, {name for name in names if _is_total(scope, name)})


def _is_total(scope: ast.AST, name: str) -> bool:
    """Whether a number is all that the name is given, but for sums."""
    begun = 0
    for node in _own(scope):
        stored = sum(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Store) for n in _parts(node))
        if stored and not (isinstance(node, ast.AugAssign) or _adds(node, name)):
            numbers = sum(_is_number(value) for target, value in _pairs(node) if _names(target, name))
            if numbers != stored:
                return False
            begun += 1
    return begun > 0


def _rewrite(node: ast.AST, names: Collection[str]) -> None:
    for block in [getattr(node, field, []) for field in _BLOCKS if names]:
        for position, line in enumerate(block):
            if isinstance(line, ast.Assign) and any(_adds(line, name) for name in names):
                assert isinstance(line.value, ast.BinOp)
                added = ast.AugAssign(line.targets[0], line.value.op, line.value.right)  # type: ignore[arg-type]
                block[position] = ast.copy_location(added, line)
            elif not isinstance(line, _SCOPES):
                _rewrite(line, names)


def _adds(node: ast.AST, name: str) -> TypeGuard[ast.Assign]:
    """`name = name + x`, and `name = name / x`."""
    match node:
        case ast.Assign(
            targets=[ast.Name(id=target)],
            value=ast.BinOp(left=ast.Name(id=left), op=ast.Add() | ast.Div(), right=other),
        ):
            return target == left == name and not any(_names(part, name) for part in ast.walk(other))
    return False


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """The statements of a scope, and the handlers and cases between them, without those of scopes within."""
    for field in _BLOCKS:
        for line in getattr(scope, field, ()):
            if not isinstance(line, _SCOPES):
                yield line
                yield from _own(line)


def _parts(line: ast.AST) -> Iterator[ast.AST]:
    """A statement with its expressions, without the statements in its blocks."""
    yield line
    for field, value in ast.iter_fields(line):
        for part in value if isinstance(value, list) else [value]:
            if field not in _BLOCKS and isinstance(part, ast.AST):
                yield from ast.walk(part)


def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
    """Each target of an assignment with its value, also in `total, seen = 0.0, 0`."""
    if isinstance(node, ast.AnnAssign):
        yield node.target, node.value
    for target in node.targets if isinstance(node, ast.Assign) else ():
        assert isinstance(node, ast.Assign)
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _is_number(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool)


def _names(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
