"""Dimensions that are merged into one, and taken apart in another order: `(b, t)` as `b * t`, and that as `(t, b)`."""

from __future__ import annotations

import ast
import re

from mlcheck.lint.nodes import walk
from mlcheck.lint.sites.model import Call

_MOVES = re.compile(r"transpose|permute|movedim|moveaxis|swapaxes|rearrange|einsum|\.m?T\b|\.t\(")


def is_split_in_other_order(call: Call, sizes: list[ast.expr]) -> bool:
    """`x.view(t, b, ...)` where the function made `b * t` of the two, in that order alone, and moves nothing."""
    if call.function is None or len(sizes) < 2 or not all(isinstance(size, ast.Name) for size in sizes[:2]):
        return False
    text = call.file.module.text_of(call.function.node)
    first, second = (ast.unparse(size) for size in sizes[:2])
    if first == second or _MOVES.search(text):
        return False
    merged = {ast.unparse(size) for other in _reshapes(call) for size in _sizes(other)[:1]}
    return f"{second} * {first}" in merged and f"{first} * {second}" not in merged


def _reshapes(call: Call) -> list[ast.Call]:
    """Other calls of `view` and `reshape` above, in the same function."""
    assert call.function is not None
    return [
        node
        for node in call.function.nodes
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("view", "reshape", "flatten")
        and node.lineno < call.node.lineno
    ]


def _sizes(call: ast.Call) -> list[ast.expr]:
    return list(call.args[0].elts) if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple) else call.args


def is_moved_behind(names: list[str], groups: list[list[ast.expr]]) -> bool:
    """Whether a dimension comes behind parts of a later one: `(b, c, h, w)` as `(b, h // p * (w // p), c * p)`."""
    used = [{part.id for factor in group for part in walk(factor) if isinstance(part, ast.Name)} for group in groups]
    places = [next((place for place, found in enumerate(used) if name in found), None) for name in names]
    known = [place for place in places if place is not None]
    return len(names) > 2 and len(known) == len(set(names)) and known != sorted(known)
