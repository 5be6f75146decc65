"""Held-out data that is scaled by its own statistics where the training data is scaled by its: written as a formula."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.named_tuples import NamedTuple
from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import latest
from mlcheck.lint.sites.project import Sites
from mlcheck.lint.sites.scopes import Context
from mlcheck.lint.values import split_of_name

_ROWS = frozenset(["", "0", "axis=0", "dim=0", "(0,)"])


class OwnScale(NamedTuple):
    """The name of the held-out data, and the formulas that scale it and the training data."""

    name: str
    place: Place
    training: Place


def own_scales(sites: Sites) -> Iterator[OwnScale]:
    """`(train - train.mean()) / train.std()`, and in the same function the same of `test`."""
    for file in sites.mentioning([".std(", ".max(", "np.std", "np.max"]):
        for scope, context in file.scopes():
            scaled: dict[str, list[tuple[str, ast.BinOp]]] = {}
            for node in file.nodes_in(scope):
                if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and (data := _scaled_by_itself(node)):
                    name = _name(file, data, context)
                    scaled.setdefault(split_of_name(name), []).append((name, node))
            if "train" in scaled:
                training = file.place(scaled["train"][0][1], context)
                for name, node in (*scaled.get("val", ()), *scaled.get("test", ())):
                    yield OwnScale(name, file.place(node, context), training)


def _scaled_by_itself(node: ast.BinOp) -> ast.expr | None:
    """`x` of `(x - x.mean(0)) / x.std(0)` and of `(x - x.min()) / (x.max() - x.min())`, all rows taken together."""
    match node.left:
        case ast.BinOp(left=data, op=ast.Sub(), right=ast.Call() as low):
            return scaled_by(data, low, node.right)
    return None


def scaled_by(data: ast.expr, low: ast.expr, scale: ast.expr) -> ast.expr | None:
    """The data, if what is subtracted from it and what it is divided by are its own statistics."""
    text = ast.unparse(data)
    below = _statistics(scale, text)
    if _statistics(low, text) == {"mean"} and below == {"std"}:
        return data
    return data if _statistics(low, text) == {"min"} and below == {"max", "min"} else None


def _statistics(node: ast.expr, text: str) -> set[str]:
    """Which statistics over the rows of the data stand in an expression: `std` of `np.std(x, axis=0) + 1e-8`."""
    found = set[str]()
    for call in (each for each in walk(node) if isinstance(each, ast.Call)):
        of_method = isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == text
        of_function = bool(call.args) and ast.unparse(call.args[0]) == text
        rest = [ast.unparse(arg) for arg in (call.args if of_method else call.args[1:])]
        words = [ast.unparse(word) for word in call.keywords if word.arg in ("axis", "dim")]
        if (of_method or of_function) and ((rest or words or [""])[0] in _ROWS):
            found.add(last_name(call.func))
    return found


def _name(file: File, data: ast.expr, context: Context) -> str:
    """The name of the data; where that says nothing of a split, the name of what it was taken from."""
    for _ in range(3):
        while isinstance(data, ast.Subscript | ast.Attribute | ast.Call):
            if isinstance(data, ast.Attribute) and split_of_name(data.attr):
                return data.attr
            data = data.func if isinstance(data, ast.Call) else data.value
        if not isinstance(data, ast.Name) or split_of_name(data.id):
            break
        found = latest(file, data, context)
        if found is None or found.kind != "value" or not isinstance(found.value, ast.expr):
            break
        data = found.value
    return data.id if isinstance(data, ast.Name) else ""
