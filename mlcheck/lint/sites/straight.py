"""The order of a function's text: what reads a name after a place, before it is bound anew."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from mlcheck.lint.nodes import is_name, reads_of, stores, stores_of, walk

_ASKED = frozenset(["shape", "size", "device", "dtype", "ndim", "dim", "is_cuda", "numel", "type", "requires_grad"])
_SIZES = ("shape", "size", "ndim", "dim", "numel")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def read_after(function: _Function, node: ast.AST, name: str) -> ast.Name | None:
    """The first use of what `name` holds after the statement of `node` that is certain to follow on it."""
    path = _path(function, node)
    own = path[-1][0][path[-1][1]] if path else None
    for block, index in reversed(path if not isinstance(own, ast.Return | ast.Raise) else []):
        for statement in block[index + 1 :]:
            for use in _uses(statement, name):
                return use
            if stores(statement, name) or isinstance(statement, ast.Return | ast.Raise):
                return None
    return _beside(own, node, name) if own is not None else None


def reads_sizes_alone(nodes: Sequence[ast.AST], call: ast.Call) -> bool:
    """Whether these lines ask what a call returned for its sizes at most: `model(x).shape[1]`, `out = model(x)`."""
    asked = {id(node.value) for node in nodes if isinstance(node, ast.Attribute) and node.attr in _SIZES}
    asked |= {
        id(node.args[0]) for node in nodes if isinstance(node, ast.Call) and is_name(node.func, "len") and node.args
    }
    targets = [node.targets[0] for node in nodes if isinstance(node, ast.Assign) and node.value is call]
    named = targets[0] if len(targets) == 1 else None
    return id(call) in asked or (
        isinstance(named, ast.Name) and all(id(read) in asked for read in reads_of(nodes, named.id))
    )


def rebound_between(function: _Function, first: ast.AST, last: ast.AST, name: str) -> bool:
    """Whether the name is bound anew between two lines, or one of them may be passed by without the other."""
    around = [block for block, _ in _path(function, last)]
    if not any(block is _path(function, first)[-1][0] for block in around):
        return True
    lines = range(getattr(first, "lineno", 0) + 1, getattr(last, "lineno", 0))
    return any(node.lineno in lines for node in stores_of(walk(function), name))


def blocks_around(function: _Function, node: ast.AST) -> list[list[ast.stmt]]:
    """The blocks of statements that a node stands in, outermost first."""
    return [block for block, _ in _path(function, node)]


def _path(function: _Function, node: ast.AST) -> list[tuple[list[ast.stmt], int]]:
    """The blocks around a node, outermost first, and which of their statements holds it."""
    path: list[tuple[list[ast.stmt], int]] = []
    block: list[ast.stmt] | None = function.body
    while block is not None:
        index = next((i for i, statement in enumerate(block) if any(n is node for n in walk(statement))), None)
        if index is None:
            break
        path.append((block, index))
        statement = block[index]
        block = next((inner for inner in _blocks(statement) if any(_holds(part, node) for part in inner)), None)
    return path


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for _, value in ast.iter_fields(statement):
        if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
            yield value
        elif isinstance(value, list) and value and isinstance(value[0], ast.excepthandler):
            yield from (handler.body for handler in value)


def _holds(statement: ast.stmt, node: ast.AST) -> bool:
    return any(part is node for part in walk(statement))


def _uses(statement: ast.stmt, name: str) -> Iterator[ast.Name]:
    """Reads of the name's contents: its shape and its kind are the same before and after."""
    if isinstance(statement, ast.AugAssign) and is_name(statement.target, name):
        yield statement.target
    asked = {
        id(node.value)
        for node in walk(statement)
        if isinstance(node, ast.Attribute) and node.attr in _ASKED and isinstance(node.value, ast.Name)
    }
    if not isinstance(statement, ast.Delete):
        yield from (node for node in reads_of(walk(statement), name) if id(node) not in asked)


def _beside(statement: ast.stmt, node: ast.AST, name: str) -> ast.Name | None:
    """A use in the same statement that is evaluated later: `self.conv(self.act(x)) + x`."""
    after = (getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0))
    uses = [use for use in _uses(statement, name) if (use.lineno, use.col_offset) >= after]
    return uses[0] if uses else None
