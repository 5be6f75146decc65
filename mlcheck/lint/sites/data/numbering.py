"""Where the items of a collection are numbered in its order, as words are in a vocabulary."""

import ast
from collections.abc import Iterable, Iterator

from mlcheck.lint.nodes import is_length, is_name, walk
from mlcheck.lint.sites.iteration import iteration_of


def numberings(nodes: Iterable[ast.AST]) -> Iterator[tuple[ast.AST, ast.expr]]:
    """`{item: i for i, item in enumerate(items)}`, the same as a loop, `dict(zip(items, range(n)))`: each with `items`.

    And `table[item] = len(table)` in a loop.
    The number may have something added to it: `i + 1`."""
    for node in nodes:
        match node:
            case ast.DictComp(generators=[loop]):
                over = _numbered(loop, node.key, node.value)
            case ast.For():
                found = (_counted(node, *each) or _numbered(node, *each[1:]) for each in _entries(node))
                over = next(filter(None, found), None)
            case ast.Call(func=ast.Name(id="dict"), args=[ast.Call(func=ast.Name(id="zip"), args=[items, numbers])]):
                over = items if isinstance(numbers, ast.Call) and is_name(numbers.func, "range") else None
            case _:
                over = None
        if over is not None:
            yield node, over


def _entries(loop: ast.For) -> Iterator[tuple[ast.expr, ast.expr, ast.expr]]:
    """The table, key and value of each `table[key] = value` in a loop."""
    for node in walk(loop):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
            yield node.targets[0].value, node.targets[0].slice, node.value


def _counted(loop: ast.For, table: ast.expr, key: ast.expr, value: ast.expr) -> ast.expr | None:
    """What the loop goes over, if the entry gives the item that it brings the number of those before it."""
    turn = iteration_of(loop)
    counts = (
        is_length(value)
        and isinstance(value, ast.Call)
        and value.args[:1]
        and ast.unparse(value.args[0]) == ast.unparse(table)
    )
    return turn.over if counts and ast.unparse(key) == ast.unparse(turn.brought) else None


def _numbered(loop: ast.For | ast.comprehension, key: ast.expr, value: ast.expr) -> ast.expr | None:
    """What the loop goes over, if the entry gives the item that it brings the number of its turn."""
    turn = iteration_of(loop)
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        value = value.left if isinstance(value.right, ast.Constant) else value.right
    if turn.number is None or ast.unparse(value) != ast.unparse(turn.number):
        return None
    return turn.over if ast.unparse(key) == ast.unparse(turn.brought) else None
