"""Sums of a loop that nobody reads: what is divided behind it is of the last batch."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import TypeGuard

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import before_methods, is_name, loads, walk
from mlcheck.lint.sites.blocks import LoopSite, for_loops
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.words import lines_with

_ADDED = pattern(r"(?:\+=? ?|\.append\()([A-Za-z_]\w*)")
_DIVIDED = pattern(r"([A-Za-z_]\w*)(?:\.\w+\(\))* ?/")
_PLAIN = ("item", "detach", "cpu", "float", "numpy", "clone")


def dropped_sums(sites: Sites) -> Iterator[tuple[LoopSite, ast.AugAssign, ast.Assign]]:
    """Each loop that adds something up, where it does, and the line behind it that gives the name another value."""
    for file in sites.mentioning(["+"]):
        for loop in for_loops(file) if _adds_and_divides(file.text) else ():
            yield from ((loop, *dropped) for dropped in _dropped_in(loop))


def _adds_and_divides(text: str) -> bool:
    """Whether one name is added to, and given a quotient."""
    added = {line.partition("+=")[0].strip() for line in lines_with("+=", text)}
    return any("/" in line for name in added if name.isidentifier() for line in lines_with(f"{name} = ", text))


def _dropped_in(loop: LoopSite) -> Iterator[tuple[ast.AugAssign, ast.Assign]]:
    """`total += loss.item()` in the loop, and behind it `total = loss.item() / count`: nobody reads the sum."""
    for node in walk(loop.node):
        if not isinstance(node, ast.AugAssign) or not isinstance(node.op, ast.Add):
            continue
        name = node.target.id if isinstance(node.target, ast.Name) else ""
        if not name or isinstance(node.value, ast.Constant) or loads(loop.node, name):
            continue
        behind = (line for line in loop.after if any(is_name(part, name) for part in walk(line)))
        match next(behind, None):
            case ast.Assign(targets=[ast.Name(id=again)], value=ast.BinOp(left=left, op=ast.Div())) as line:
                if again == name and not loads(line.value, name) and ast.unparse(left) == ast.unparse(node.value):
                    yield node, line


def unread_sums(sites: Sites) -> Iterator[tuple[LoopSite, ast.AugAssign | ast.Call, ast.BinOp, str]]:
    """`total += loss.item()` in the loop, where nothing reads `total`, and behind it `loss / count`."""
    for file in sites.mentioning(["backward(", "no_grad", ".eval()"]):
        divided = {name for line in lines_with("/", file.text) for name in _DIVIDED.findall(line)}
        named = divided and not divided.isdisjoint(_ADDED.findall(file.text))
        for loop in for_loops(file) if named and not file.is_test else ():
            for added, name, share in _added_in(loop.node):
                shares = (node for line in loop.after for node in walk(line) if _is_share(node, share))
                told = next(shares, None)
                if told is not None and _is_unread(loop, name) and not _is_given(loop.after, share, told):
                    yield loop, added, told, name


def _added_in(loop: ast.For) -> Iterator[tuple[ast.AugAssign | ast.Call, str, str]]:
    """Where the loop adds to a variable or a list, its name, and the variable that is added."""
    for node in walk(loop):
        match node:
            case ast.AugAssign(target=ast.Name(id=name), op=ast.Add(), value=share):
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[share]):
                pass
            case _:
                continue
        bare = before_methods(share, _PLAIN)
        if isinstance(bare, ast.Name) and any(is_name(part, bare.id) and _is_stored(part) for part in walk(loop)):
            yield node, name, bare.id


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _is_given(lines: list[ast.stmt], name: str, before: ast.BinOp) -> bool:
    """Whether the variable has another value by then."""
    stored = [node for line in lines for node in walk(line) if is_name(node, name) and _is_stored(node)]
    return any(node.lineno < before.lineno for node in stored)


def _is_share(node: ast.AST, name: str) -> TypeGuard[ast.BinOp]:
    """`loss / count`."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Div)
        and is_name(before_methods(node.left, _PLAIN), name)
    )


def _is_unread(loop: LoopSite, name: str) -> bool:
    """Whether the function reads the variable nowhere, and no other may."""
    shared = any(isinstance(node, ast.Global | ast.Nonlocal) and name in node.names for node in walk(loop.scope))
    reads = [node for node in walk(loop.scope) if is_name(node, name) and isinstance(node.ctx, ast.Load)]
    appended = {
        node.func.value
        for node in walk(loop.scope)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "append"
    }
    return isinstance(loop.scope, ast.FunctionDef) and not shared and all(node in appended for node in reads)
