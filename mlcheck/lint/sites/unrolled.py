"""Dictionaries made for keys that are written out: `{x: load(x) for x in ["train", "val"]}`, or the same as a loop."""

from __future__ import annotations

import ast
from copy import deepcopy
from typing import TYPE_CHECKING, NamedTuple

from mlcheck.core.dataclasses import replace
from mlcheck.lint.nodes import is_name, walk

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File
    from mlcheck.lint.sites.model import Call
    from mlcheck.lint.sites.scopes import Context

_DEPTH = 4


class _Turns(NamedTuple):
    """What is made in each turn, the variable that names the turn, and what the turns go over."""

    made: ast.expr
    name: str
    over: ast.expr


def keys_of(file: File, made: ast.DictComp, context: Context) -> list[str]:
    """The keys, where all of them are words that the comprehension goes through; none where they are not known."""
    turns = _of_comprehension(made)
    return _words(file, turns.over, context) if turns is not None else []


def entry_of(made: ast.DictComp, key: str) -> tuple[ast.expr, str, str]:
    """What `value_for` is asked for the value that a comprehension has for a key."""
    assert isinstance(made.key, ast.Name)
    return made.value, made.key.id, key


def entry_of_loop(file: File, filled: ast.Subscript, loop: Context, key: str) -> tuple[ast.expr, str, str] | None:
    """The same for `filled = ...`, straight in a loop over words; None where the key is not among those."""
    for line, turns in _of_loop(loop.node) if isinstance(loop.node, ast.For) else ():
        if line.targets[0] is filled and key in _words(file, turns.over, loop):
            return turns.made, turns.name, key
    return None


def _of_comprehension(made: ast.DictComp) -> _Turns | None:
    match made:
        case ast.DictComp(
            key=ast.Name(id=key), generators=[ast.comprehension(target=ast.Name(id=name), iter=over, ifs=[])]
        ) if key == name:
            return _Turns(made.value, name, over)
    return None


def _of_loop(loop: ast.For) -> list[tuple[ast.Assign, _Turns]]:
    """`for split in ("train", "val"): loaders[split] = DataLoader(...)`, straight in the loop."""
    if not isinstance(loop.target, ast.Name):
        return []
    name = loop.target.id
    lines = (line for line in loop.body if isinstance(line, ast.Assign))
    return [
        (line, _Turns(line.value, name, loop.iter))
        for line in lines
        if isinstance(line.targets[0], ast.Subscript) and is_name(line.targets[0].slice, name)
    ]


def _words(file: File, over: ast.expr, context: Context, depth: int = _DEPTH) -> list[str]:
    """`["train", "val"]`, also under a name; the keys of a dictionary that is written out or made for such words."""
    if isinstance(over, ast.Call) and isinstance(over.func, ast.Attribute) and over.func.attr == "keys":
        over = over.func.value
    if isinstance(over, ast.Name | ast.Attribute) and depth:
        if isinstance(over, ast.Name) and file.is_mutated(over.id, context):
            return []
        found, where = file.value(over, context)
        return _words(file, found, where, depth - 1) if found is not over else []
    if isinstance(over, ast.DictComp) and (turns := _of_comprehension(over)) is not None:
        return _words(file, turns.over, context, depth - 1) if depth else []
    parts = over.elts if isinstance(over, ast.List | ast.Tuple) else over.keys if isinstance(over, ast.Dict) else []
    words = [each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return words if len(words) == len(parts) else []


def value_for(part: tuple[ast.expr, str, str]) -> ast.expr:
    """What is made for one of the keys: the value, with the key in the place of the variable."""
    made, variable, key = part
    value = deepcopy(made)
    for node in walk(value):
        for name, inner in ast.iter_fields(node):
            if is_name(inner, variable) and isinstance(inner, ast.Name):
                setattr(node, name, ast.copy_location(ast.Constant(key), inner))
            elif isinstance(inner, list):
                inner[:] = [
                    ast.copy_location(ast.Constant(key), each) if is_name(each, variable) else each for each in inner
                ]
    return value


def for_each_key(call: Call) -> list[tuple[str, Call]]:
    """The call for each key that it is the value of, in a comprehension or a loop; elsewhere itself, of no key."""
    around, found = call.context.node, list[_Turns]()
    if call.context.kind == "comprehension" and isinstance(around, ast.DictComp):
        turns = _of_comprehension(around)
        found = [turns] if turns is not None else []
    elif call.context.kind == "loop" and isinstance(around, ast.For):
        found = [turns for _, turns in _of_loop(around)]
    for turns in found:
        if turns.made is call.node and (keys := _words(call.file, turns.over, call.context)):
            made = ((key, call.file.sites.once_of(value_for, (turns.made, turns.name, key))) for key in keys)
            return [(key, replace(call, node=node)) for key, node in made if isinstance(node, ast.Call)]
    return [("", call)]
