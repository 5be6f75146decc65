"""Where predictions are compared with labels, and which labels did not come through the loader."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.lint.nodes import before_methods, is_name, walk
from mlcheck.lint.sites.data.loaders import Loader
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import Origin, origins

_ARRAYS = frozenset(f"numpy.{name}" for name in ("array", "asarray", "load", "loadtxt", "genfromtxt"))
_DRAWN = {"numpy.random.randint": 2, "numpy.random.choice": 1}
"""What gives an array where a size follows so many arguments."""
_SAME = ("numpy", "cpu", "ravel", "flatten", "tolist", "to_numpy", "squeeze", "long", "int", "astype")
_ROWS = ("_score", "_error", "_matrix", "_report", "_curve")


def compared(function: Function) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Two arrays of which row belongs to row, either way round: `accuracy_score(a, b)`, `(a == b).mean()`."""
    for node in function.nodes:
        match node:
            case ast.Call(args=[one, other, *_]):
                name = function.file.called(node, function.inner)
                if not name.startswith("sklearn.metrics.") or not name.endswith(_ROWS):
                    continue
            case ast.Compare(left=one, ops=[ast.Eq()], comparators=[other]):
                if not any(_is_array(function, side) for side in (one, other)):
                    continue
            case _:
                continue
        yield one, other
        yield other, one


def is_in_order(function: Function, loader: Loader, labels: ast.expr) -> bool:
    """Whether it is a variable that was there before the loop over the loader, which has no part in it."""
    name = _variable(labels)
    loops = [node for node in function.nodes if isinstance(node, ast.For) and _runs_over(node, loader)]
    if name is None or not loops or any(_mentions(loop, {name.id}) for loop in loops):
        return False
    made = [node for node in function.nodes if isinstance(node, ast.Assign) and _mentions_target(node, name.id)]
    stores = [node for node in function.nodes if is_name(node, name.id)]
    stored = [node for node in stores if isinstance(node.ctx, ast.Store)]
    if len(stored) > len(made) or not (made or name.id in function.parameters):
        return False
    first = min(loop.lineno for loop in loops)
    return all(node.lineno < first and not _mentions(node.value, set(loader.names)) for node in made)


def is_only_joined(function: Function, loader: Loader, filled: ast.expr) -> bool:
    """Whether no other variable has a part in it since the loop: an index could put the rows back in order."""
    names = {node.id for node in walk(filled) if isinstance(node, ast.Name)} & _variables(function)
    made = [
        node.value
        for node in function.nodes
        if isinstance(node, ast.Assign) and node.lineno > loader.call.node.lineno
        if any(_mentions_target(node, name) for name in names)
    ]
    again = [node for node in function.nodes if isinstance(node, ast.Name) and node.id in loader.names]
    others = _variables(function) - names
    return (
        len(names) == 1
        and not any(_mentions(value, others) for value in made)
        and sum(isinstance(node.ctx, ast.Store) for node in again) == 1
    )


def _variables(function: Function) -> set[str]:
    stored = {n.id for n in function.nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return stored | set(function.parameters)


def _is_array(function: Function, side: ast.expr) -> bool:
    """Whether all it may come from are arrays, and no single class to compare with."""
    name = _variable(side)
    found = origins(function.file, name, function.inner) if name is not None else []
    return bool(found) and all(map(_is_made_of_rows, found))


def _is_made_of_rows(origin: Origin) -> bool:
    node = origin.node
    if not isinstance(node, ast.Call):
        return False
    if origin.name in _DRAWN:
        return len(node.args) > _DRAWN[origin.name] or any(word.arg == "size" for word in node.keywords)
    return origin.name in _ARRAYS or (isinstance(node.func, ast.Attribute) and node.func.attr == "to_numpy")


def _variable(node: ast.expr) -> ast.Name | None:
    """`y` of `y`, `y.values`, `y.cpu().numpy()`."""
    node = before_methods(node, _SAME)
    if isinstance(node, ast.Attribute) and node.attr == "values":
        node = node.value
    return node if isinstance(node, ast.Name) else None


def _runs_over(loop: ast.For, loader: Loader) -> bool:
    return _mentions(loop.iter, set(loader.names))


def _mentions(node: ast.AST, names: set[str]) -> bool:
    return any(isinstance(part, ast.Name) and part.id in names for part in walk(node))


def _mentions_target(node: ast.Assign, name: str) -> bool:
    return any(_mentions(target, {name}) for target in node.targets)
