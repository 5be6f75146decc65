"""The threshold or setting with the best score, by the scores that it is chosen from."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mlcheck.core.patterns import pattern
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.scopes import Context

_CHOSEN = pattern(r"best|thresh|chosen|optimal")


def best_settings(file: File) -> Iterator[tuple[ast.expr, Context, str]]:
    """`threshold = max(grid, key=lambda t: f1_score(test_y, test_p > t))`, `best = max(scores, key=scores.get)`."""
    for call in file.calls("max", "min"):
        key = call.argument("key")
        named = any(_CHOSEN.search(name) for name in file.names_given(call.node))
        context = own_scope(call.context)
        if named and isinstance(key, ast.Lambda) and context is not None:
            yield key.body, context, "which threshold or setting is kept"
        elif named and context is not None and isinstance(key, ast.Attribute) and key.attr == "get":
            for score in _entries(file, key.value, call.context):
                yield score, context, "which setting is kept"


def _entries(file: File, table: ast.expr, context: Context) -> Iterator[ast.expr]:
    """`score(net, data)` of `{rate: score(net, data) for rate in rates}`, and of `scores[rate] = score(net, data)`."""
    made, _ = file.value(table, context)
    if isinstance(made, ast.DictComp):
        yield made.value
    if not isinstance(table, ast.Name):
        return
    function = file.function_around(context)
    nodes = function.nodes if function is not None else file.nodes_in(file.module.source.tree)
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Subscript(value=ast.Name(id=name))], value=score) if name == table.id:
                yield score


def own_scope(context: Context) -> Context | None:
    """The function or module that a place belongs to; None in a lambda and in the body of a class."""
    for outer in context.outwards():
        if outer.kind in ("function", "module"):
            return outer
        if outer.kind in ("lambda", "class"):
            return None
    return None
