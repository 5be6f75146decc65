"""Best scores that are kept in a dictionary or in an object, and what they begin with where nothing sets them again."""

from __future__ import annotations

import ast
import re

from mlcheck.core.patterns import pattern
from mlcheck.lint.nodes import is_name, last_name
from mlcheck.lint.sites.declared import declared
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.origins import Origin, sole
from mlcheck.lint.sites.records import made_of
from mlcheck.lint.sites.scopes import Context

_BEST = pattern(r"(?:^|_)best(?:_|$)|(?:^|_)best[A-Z]|Best")
_BY_OTHER_WAYS = ("setattr(", "__dict__", "vars(")


def name_of_score(node: ast.AST) -> str:
    """`best_loss` of `best_loss`, `state.best_loss`, `state["best_loss"]` and `best["loss"]`."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
        key = node.slice.value
        return key if _BEST.search(key) or not _BEST.search(last_name(node.value)) else f"best_{key}"
    return last_name(node)


def begun_with(file: File, best: ast.expr, context: Context) -> Origin | None:
    """What `state["best_loss"]` or `state.best_loss` is at first, and stays: no line of the project sets it."""
    owner = best.value if isinstance(best, ast.Subscript | ast.Attribute) else None
    if not isinstance(owner, ast.Name | ast.Attribute):
        return None
    if isinstance(best, ast.Subscript) and isinstance(best.slice, ast.Constant):
        key = best.slice.value
        begun = _of_display(file, owner, context, key) if isinstance(key, str) else None
        sets = rf"\[\s*['\"]{re.escape(str(key))}['\"]\s*\]\s*[-+*/]?=(?!=)"
    else:
        key, function = last_name(best), file.function_around(context)
        cls = function.cls if own_attribute(best, function) and function is not None else made_of(file, owner, context)
        begun = declared(cls, key) if cls is not None else None
        sets = rf"\.{key}\s*(?:,[^=\n]*)?[-+*/]?=(?!=)|\b{key}=(?!=)"
    files = list(file.sites.mentioning([str(key)], tests=True)) if begun is not None else []
    ways = (*_BY_OTHER_WAYS, f"{last_name(owner)}.update(", f"{last_name(owner)} |=")
    if any(re.search(sets, other.text) or any(word in other.text for word in ways) for other in files):
        return None
    return begun


def _of_display(file: File, owner: ast.expr, context: Context, key: str) -> Origin | None:
    """The entry of `{"best_loss": inf}` and of `dict(best_loss=inf)`, where that is the one thing it may be."""
    made = sole(file, owner, context)
    match made.node if made is not None else None:
        case ast.Dict(keys=keys, values=values) if None not in keys:
            held = [v for k, v in zip(keys, values, strict=True) if isinstance(k, ast.Constant) and k.value == key]
        case ast.Call(func=func, args=[], keywords=words) if is_name(func, "dict"):
            held = [word.value for word in words if word.arg == key]
        case _:
            return None
    return Origin(made.file, held[0], made.context) if made is not None and len(held) == 1 else None
