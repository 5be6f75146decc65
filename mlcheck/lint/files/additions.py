"""Running totals in one form: `total = total + x` of what begins as a number is read as `total += x`, `/` likewise."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, walk

_SUM = pattern(r" = (\w+) [+/] ")
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def write_additions(tree: ast.Module, text: str) -> None:
    """Rewrite them in the tree, wherever in its scope the name holds nothing but numbers and what is added to them.

    Of a tensor the two differ: `x += y` overwrites what others may still hold.
    """
    scopes: list[ast.AST] = [tree] if _repeats(text) else []
    for scope in scopes:
        own = list(_own(scope, scopes))
        if isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef | ast.Module):
            added = {name for line in own if (name := _added(line))} - _parameters(scope)
            _rewrite(scope, {name for name in added if _is_total(own, name)})


def _repeats(text: str) -> bool:
    """Whether `total = total + ` stands there, or may."""
    return any(text.endswith(found[1], 0, found.start()) for found in _SUM.finditer(text))


def _parameters(scope: ast.AST) -> set[str]:
    """The names that hold, at the beginning, whatever the caller gives."""
    if not isinstance(scope, ast.FunctionDef | ast.AsyncFunctionDef):
        return set()
    return {node.arg for node in walk(scope.args) if isinstance(node, ast.arg)}


def _is_total(own: Sequence[ast.AST], name: str) -> bool:
    """Whether a number is all that the name is given in its scope, but for sums."""
    begun = [node for node in own for target, value in _pairs(node) if is_name(target, name) and _is_number(value)]
    for node in own if begun else ():
        stored = sum(is_name(n, name) and isinstance(n.ctx, ast.Store) for n in _parts(node))
        if stored and not (isinstance(node, ast.AugAssign) or _added(node) == name or stored == begun.count(node)):
            return False
    return bool(begun)


def _rewrite(node: ast.AST, names: Collection[str]) -> None:
    for block in [getattr(node, field, []) for field in _BLOCKS if names]:
        for position, line in enumerate(block):
            if isinstance(line, ast.Assign) and _added(line) in names:
                assert isinstance(line.value, ast.BinOp)
                added = ast.AugAssign(line.targets[0], line.value.op, line.value.right)  # type: ignore[arg-type]
                block[position] = ast.copy_location(added, line)
            elif not isinstance(line, _SCOPES):
                _rewrite(line, names)


def _added(node: ast.AST) -> str:
    """`name` of `name = name + x`, and of `name = name / x`; "" of all else."""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and len(node.targets) == 1:
        target, left = node.targets[0], node.value.left
        if isinstance(target, ast.Name) and is_name(left, target.id) and isinstance(node.value.op, ast.Add | ast.Div):
            if not any(is_name(part, target.id) for part in walk(node.value.right)):
                return target.id
    return ""


def _own(scope: ast.AST, scopes: list[ast.AST]) -> Iterator[ast.AST]:
    """The statements of a scope, and the handlers and cases between them; the scopes within are put on the list."""
    for field in _BLOCKS:
        for line in getattr(scope, field, ()):
            if isinstance(line, _SCOPES):
                scopes.append(line)
            else:
                yield line
                yield from _own(line, scopes)


def _parts(line: ast.AST) -> Iterator[ast.AST]:
    """The expressions of a statement, without the statements in its blocks."""
    for field, value in ast.iter_fields(line):
        for part in value if isinstance(value, list) else [value]:
            if field not in _BLOCKS and isinstance(part, ast.AST):
                yield from walk(part)


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
