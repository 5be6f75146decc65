"""Dictionaries made for keys that are written out: `{x: load(x) for x in ["train", "val"]}`, or the same as a loop."""

from __future__ import annotations

import ast
from copy import deepcopy
from typing import TYPE_CHECKING, NamedTuple

from mlcheck.core.dataclasses import replace
from mlcheck.lint.nodes import loads, walk

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File
    from mlcheck.lint.sites.model import Call
    from mlcheck.lint.sites.scopes import Context

_DEPTH = 4


class _Turns(NamedTuple):
    """What is made in each turn, the variable that names the turn, and what the turns go over.

    `place`: which part of each item the variable is (-1: all of it); `local`: what the loop binds to names before.
    """

    made: ast.expr
    name: str
    over: ast.expr
    place: int = -1
    local: tuple[tuple[str, ast.expr], ...] = ()


class Entry(NamedTuple):
    """What is made in the turn of one key: the expression, the variable that names the turn, the key, the locals."""

    made: ast.expr
    variable: str
    key: str
    local: tuple[tuple[str, ast.expr], ...] = ()


def keys_of(file: File, made: ast.DictComp, context: Context) -> list[str]:
    """The keys, where all of them are words that the comprehension goes through; none where they are not known."""
    turns = _of_comprehension(made)
    return _words(file, turns.over, context) if turns is not None else []


def entry_of(made: ast.DictComp, key: str) -> Entry:
    """What `value_for` is asked for the value that a comprehension has for a key."""
    assert isinstance(made.key, ast.Name)
    return Entry(made.value, made.key.id, key)


def entry_of_loop(file: File, filled: ast.Subscript, loop: Context, key: str) -> Entry | None:
    """The same for `filled = ...`, straight in a loop over words; None where the key is not among those."""
    for line, turns in _of_loop(loop.node) if isinstance(loop.node, ast.For) else ():
        if line.targets[0] is filled and key in _keys(file, turns, loop):
            return Entry(turns.made, turns.name, key, turns.local)
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
    parts = loop.target.elts if isinstance(loop.target, ast.Tuple) else [loop.target]
    names = [part.id if isinstance(part, ast.Name) else "" for part in parts]
    found, local = list[tuple[ast.Assign, _Turns]](), dict[str, ast.expr]()
    for line in loop.body:
        match line:
            case ast.Assign(targets=[ast.Subscript(slice=ast.Name(id=name))]) if name in names:
                place = names.index(name) if isinstance(loop.target, ast.Tuple) else -1
                found.append((line, _Turns(line.value, name, loop.iter, place, tuple(local.items()))))
            case ast.Assign(targets=[ast.Name(id=name)]) if not loads(line.value, name):
                local[name] = line.value
            case _:
                bound = {
                    node.id for node in walk(line) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
                }
                local = {name: value for name, value in local.items() if name not in bound}
    return found


def _keys(file: File, turns: _Turns, context: Context) -> list[str]:
    """The words of the turns; of `(("train", a), ("val", b))` those at the place of the variable."""
    if turns.place < 0:
        return _words(file, turns.over, context)
    items = turns.over.elts if isinstance(turns.over, ast.List | ast.Tuple) else []
    parts = [item.elts[turns.place] for item in items if isinstance(item, ast.Tuple) and len(item.elts) > turns.place]
    words = [each.value for each in parts if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    return words if len(words) == len(items) else []


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


def value_for(entry: Entry) -> ast.expr:
    """What is made for one of the keys: the value, with the key in the place of the variable.

    What the loop binds to a name before stands in the place of the name.
    """
    value = deepcopy(entry.made)
    for _ in range(_DEPTH):
        if not _put_in(value, entry):
            break
    for given in value.args if isinstance(value, ast.Call) else ():
        _Folded().generic_visit(given)
    return value


class _Folded(ast.NodeTransformer):
    """`"train" == "train"`, which is written of the key inside of what is given on, as what it comes to."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        match node:
            case ast.Compare(left=ast.Constant(value=one), ops=[ast.Eq()], comparators=[ast.Constant(value=other)]):
                return ast.copy_location(ast.Constant(one == other), node)
            case ast.Compare(left=ast.Constant(value=one), ops=[ast.NotEq()], comparators=[ast.Constant(value=other)]):
                return ast.copy_location(ast.Constant(one != other), node)
        return node


def _put_in(value: ast.expr, entry: Entry) -> bool:
    """Whether one of the names that are replaced may stand in what replaced another."""
    local, again = dict(entry.local), False

    def replaced(node: object) -> object:
        nonlocal again
        if not isinstance(node, ast.Name) or not isinstance(node.ctx, ast.Load):
            return node
        if node.id == entry.variable:
            return ast.copy_location(ast.Constant(entry.key), node)
        again = again or node.id in local
        return deepcopy(local[node.id]) if node.id in local else node

    for node in walk(value):
        for name, inner in ast.iter_fields(node):
            if isinstance(inner, list):
                inner[:] = map(replaced, inner)
            elif isinstance(inner, ast.Name):
                setattr(node, name, replaced(inner))
    return again


def for_each_key(call: Call) -> list[tuple[str, Call]]:
    """The call for each key that it is the value of, in a comprehension or a loop; elsewhere itself, of no key."""
    around, found = call.context.node, list[_Turns]()
    if call.context.kind == "comprehension" and isinstance(around, ast.DictComp):
        turns = _of_comprehension(around)
        found = [turns] if turns is not None else []
    elif call.context.kind == "loop" and isinstance(around, ast.For):
        found = [turns for _, turns in _of_loop(around)]
    for turns in found:
        if turns.made is call.node and (keys := _keys(call.file, turns, call.context)):
            entries = (Entry(turns.made, turns.name, key, turns.local) for key in keys)
            made = ((entry.key, call.file.sites.once_of(value_for, entry)) for entry in entries)
            return [(key, replace(call, node=node)) for key, node in made if isinstance(node, ast.Call)]
    return [("", call)]
