"""Collections in the order of a set of strings, which Python shuffles anew in every process.

Source: https://docs.python.org/3/reference/datamodel.html#object.__hash__ (the hashes of strings are salted)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from mlcheck.lint.nodes import last_name, walk
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import given, returns
from mlcheck.lint.sites.scopes import Context

if TYPE_CHECKING:
    from mlcheck.lint.sites.model import Class

_DEPTH = 6
_MAKES_STRINGS = frozenset(
    [
        *("split", "rsplit", "splitlines", "lower", "upper", "strip", "read", "readlines", "word_tokenize"),
        *("listdir", "glob", "iglob", "rglob", "iterdir", "basename", "dirname", "join", "DictReader"),
    ]
)
_MAKES_NUMBERS = ("int", "float", "len", "ord", "hash", "range", "tolist")
_GROWS = ("append", "extend", "add", "update")


_Standing = tuple[ast.expr, Context]


class Ordered(NamedTuple):
    """The set that decides the order, and where it stands."""

    file: File
    node: ast.expr
    context: Context


def by_set(file: File, node: ast.expr, context: Context, depth: int = _DEPTH) -> Ordered | None:
    """The set of strings in whose order a collection is; None where it is sorted, or may hold something else."""
    if isinstance(node, ast.Name | ast.Attribute):
        if depth == 0 or re.search(rf"(?<![\w.]){re.escape(ast.unparse(node))}\.sort\(", file.text):
            return None
        value, where = source(file, node, context) if isinstance(node, ast.Name) else file.value(node, context)
        if isinstance(value, ast.Name):
            return next((found for each in _handed(file, value, where) if (found := by_set(*each, depth - 1))), None)
        if value is node:
            return None
        if _is_empty_set(value):
            return Ordered(file, value, where) if _are_strings(file, _grown(file, node, context)) else None
        return by_set(file, value, where, depth - 1)
    match node:
        case ast.SetComp() | ast.Call(func=ast.Name(id="set"), args=[_]):
            return Ordered(file, node, context) if _are_strings(file, [(node, context)]) else None
        case ast.Call(func=ast.Name(id="list" | "tuple"), args=[inner]):
            return by_set(file, inner, context, depth)
        case ast.ListComp(generators=[loop]) | ast.GeneratorExp(generators=[loop]):
            return by_set(file, loop.iter, context, depth)
        case ast.Call(func=ast.Name() | ast.Attribute()):
            named = file.resolve(node.func, context) if depth else None
            answers = list(returns(named)) if isinstance(named, Function) else []
            if isinstance(named, Function) and len(answers) == 1:
                return by_set(named.file, answers[0], named.inner, depth - 1)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            unpacked = [part.value for part in parts if isinstance(part, ast.Starred)]
            return next((found for part in unpacked if (found := by_set(file, part, context, depth - 1))), None)
        case ast.BinOp(op=ast.Add() | ast.BitOr()):
            return by_set(file, node.left, context, depth) or by_set(file, node.right, context, depth)
    return None


def _handed(file: File, node: ast.Name, context: Context) -> Iterator[tuple[File, ast.expr, Context]]:
    """What the calls of the function around give for a parameter that is never bound anew."""
    bound = file.bindings(node.id, context)
    function = file.function_around(bound[0].context) if len(bound) == 1 and bound[0].kind == "param" else None
    for each in given(file.sites, function, node.id) if function is not None else ():
        yield each.file, each.node, each.context


def _is_empty_set(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and last_name(node.func) == "set" and not node.args


def _grown(file: File, node: ast.Name | ast.Attribute, context: Context) -> list[_Standing]:
    """What is put into a collection: the arguments of its `add`, `update`, `append` and `extend`."""
    calls = [call for call in file.calls(*_GROWS) if call.node.args and call.owner is not None]
    if isinstance(node, ast.Name):
        bindings = file.bindings(node.id, context)
        named = (call for call in calls if isinstance(call.owner, ast.Name) and call.owner.id == node.id)
        own = [call for call in named if file.bindings(node.id, call.context) is bindings]
    else:
        here, name = file.method_around(context), ast.unparse(node)
        own = [call for call in calls if here is not None and _in_class(file, call.context) is here.cls]
        own = [call for call in own if call.owner is not None and ast.unparse(call.owner) == name]
    return [(call.node.args[0], call.context) for call in own]


def _in_class(file: File, context: Context) -> Class | None:
    method = file.method_around(context)
    return method.cls if method is not None else None


def _are_strings(file: File, made_of: list[_Standing]) -> bool:
    """Whether text is taken apart on the way to the items, and nothing makes numbers of it."""
    called = {last_name(call.func) for part in _origins(file, made_of) for call in _calls(part)}
    return not called.isdisjoint(_MAKES_STRINGS) and called.isdisjoint(_MAKES_NUMBERS)


def _calls(part: ast.expr) -> Iterator[ast.Call]:
    return (node for node in walk(part) if isinstance(node, ast.Call))


def _origins(file: File, made_of: list[_Standing]) -> Iterator[ast.expr]:
    """The expressions, and those that their names and the attributes of `self` were given or filled with."""
    todo, names = [(file, *each) for each in made_of], set[tuple[File, str]]()
    while todo:
        here, part, around = todo.pop()
        yield part
        for node in walk(part):
            if not isinstance(node, ast.Name | ast.Attribute) or (here, ast.unparse(node)) in names:
                continue
            names.add((here, ast.unparse(node)))
            if isinstance(node, ast.Name):
                bound = here.bindings(node.id, around)
                todo += [(here, each.value, each.context) for each in bound if isinstance(each.value, ast.expr)]
                todo += [(here, *each) for each in _grown(here, node, around)]
                todo += _handed(here, node, around)
            elif (held := here.held(node, around)) is not None:
                todo += [(here, *each) for each in (held, *_grown(here, node, around))]
