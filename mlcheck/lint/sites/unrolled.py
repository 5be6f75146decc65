"""Dictionaries that a comprehension makes for keys that are written out: `{x: load(x) for x in ["train", "val"]}`."""

from __future__ import annotations

import ast
from copy import deepcopy
from typing import TYPE_CHECKING

from mlcheck.core.dataclasses import replace
from mlcheck.lint.nodes import is_name, walk

if TYPE_CHECKING:
    from mlcheck.lint.sites.model import Call


def keys_of(made: ast.DictComp) -> list[str]:
    """The keys, where all of them are words that the comprehension goes through; none where they are not known."""
    match made:
        case ast.DictComp(
            key=ast.Name(id=key),
            generators=[ast.comprehension(target=ast.Name(id=name), iter=ast.List(elts=e) | ast.Tuple(elts=e), ifs=[])],
        ) if key == name:
            words = [each.value for each in e if isinstance(each, ast.Constant) and isinstance(each.value, str)]
            return words if len(words) == len(e) else []
    return []


def value_for(part: tuple[ast.DictComp, str]) -> ast.expr:
    """What the comprehension makes for one of its keys: its value, with the key in the place of the variable."""
    made, key = part
    assert isinstance(made.key, ast.Name)
    value = deepcopy(made.value)
    for node in walk(value):
        for name, inner in ast.iter_fields(node):
            if is_name(inner, made.key.id) and isinstance(inner, ast.Name):
                setattr(node, name, ast.copy_location(ast.Constant(key), inner))
            elif isinstance(inner, list):
                inner[:] = [
                    ast.copy_location(ast.Constant(key), each) if is_name(each, made.key.id) else each for each in inner
                ]
    return value


def for_each_key(call: Call) -> list[tuple[str, Call]]:
    """The call for each key of the comprehension whose value it is; elsewhere the call itself, of no key."""
    around = call.context.node if call.context.kind == "comprehension" else None
    if not isinstance(around, ast.DictComp) or around.value is not call.node or not (keys := keys_of(around)):
        return [("", call)]
    made = ((key, call.file.sites.once_of(value_for, (around, key))) for key in keys)
    return [(key, replace(call, node=node)) for key, node in made if isinstance(node, ast.Call)]
