"""Syntax trees in a third of the memory: Python's own nodes keep a dictionary each, these keep slots.

A slim node's class derives from Python's and goes by the same name, so that `isinstance`, `match` and `ast.unparse`
see no difference. Who looks a node's class up in a table makes the table with `by_kind`. To copy a tree
takes half as long as to parse it: that is worth it where much is read.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")
Copy = Callable[[Any, tuple[int, ...]], Any]

_WORTHLESS = frozenset(["kind", "type_comment"])  # their classes say None for them
_SIMPLE = ["identifier", "int", "string", "constant"]
_UNCHANGED = frozenset([*_SIMPLE, "expr_context", "boolop", "operator", "unaryop", "cmpop"])


def _types(kind: type[ast.AST]) -> dict[str, str]:
    """The types of its fields in the grammar, as its docstring tells them: `Call(expr func, expr* args, ...)`."""
    _, _, told = (kind.__doc__ or "").partition("(")
    pairs = (part.split() for part in told.partition(")")[0].split(","))
    return {pair[1]: pair[0] for pair in pairs if len(pair) == 2}


def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    return tuple(name for name in kind._fields if name not in _WORTHLESS)


def _kinds() -> Iterator[type[ast.AST]]:
    """The classes of nodes that hold something; those that do not (`Load`, `Add`) are one object each anyway."""
    families = (ast.AST, *ast.AST.__subclasses__())
    for kind in vars(ast).values():
        if not (isinstance(kind, type) and issubclass(kind, ast.AST) and kind.__base__ in families):
            continue
        if (kind._fields or kind._attributes) and _types(kind).keys() == set(kind._fields):
            yield kind


def _deep_copy(node: ast.AST, memo: dict[int, Any]) -> ast.AST:
    """What `copy.deepcopy` makes of a slim node: by itself it copies the dictionary that there is none of."""
    made = ast.AST.__new__(type(node))
    for name in (slot for slot in (*_fields(type(node)), *node._attributes) if hasattr(node, slot)):
        setattr(made, name, deepcopy(getattr(node, name), memo))
    return made


SLIM: dict[type, type] = {
    kind: type(kind.__name__, (kind,), {"__slots__": (*_fields(kind), *kind._attributes), "__deepcopy__": _deep_copy})
    for kind in _kinds()
}


def by_kind(table: dict[type, T]) -> dict[type, T]:
    """The table by classes of nodes, with the same for slim ones."""
    return table | {SLIM[kind]: value for kind, value in table.items() if kind in SLIM}


def slimmed(tree: ast.Module, text: str) -> ast.Module:
    """The tree in slim nodes, as far as it can be followed: both kinds go together. The one given is used up."""
    lines = _numbers(1 << (text.count("\n") + 2).bit_length())
    try:
        made: ast.Module = _copies()[ast.Module](tree, lines)
    except RecursionError:
        return tree
    return made


@cache
def _numbers(count: int) -> tuple[int, ...]:
    """Line numbers above 256 are objects too, two for each node: here one for each line of all files."""
    return tuple(range(count))


@cache
def _copies() -> dict[type, Copy]:
    """For each kind of node what copies it and all below; compiled, as a loop over fields would take twice as long."""
    copies: dict[type, Copy] = {}
    values: dict[str, Any] = {"copies": copies, "make": ast.AST.__new__, "nodes": _nodes}
    for kind, slim in SLIM.items():
        values[f"Slim{kind.__name__}"] = slim
        exec(_written(kind), values)  # noqa: S102 - made of the names of Python's own grammar
        copies[kind] = values[kind.__name__]
    return copies


def _written(kind: type[ast.AST]) -> str:
    """The text of the function that copies a node of that kind."""
    body = [f"new = make(Slim{kind.__name__})"]
    types = _types(kind)
    for name in _fields(kind):
        if types[name].rstrip("*?") in _UNCHANGED:
            body.append(f"new.{name} = node.{name}")
        elif types[name].endswith("*"):
            body.append(f"new.{name} = nodes(copies, node.{name}, lines)")
        else:
            body += [f"old = node.{name}", "copy = copies.get(old.__class__)"]
            body.append(f"new.{name} = old if copy is None else copy(old, lines)")
    for name in kind._attributes:
        body.append(f"new.{name} = lines[node.{name}]" if name.endswith("lineno") else f"new.{name} = node.{name}")
    return f"def {kind.__name__}(node, lines):\n " + "\n ".join([*body, "return new"])


_NONE: list[Any] = []


def _nodes(copies: dict[type, Copy], old: list[Any], lines: tuple[int, ...]) -> list[Any]:
    """The same list with copies in it; all empty ones are one."""
    if not old:
        return _NONE
    for position, node in enumerate(old):
        copy = copies.get(node.__class__)
        if copy is not None:
            old[position] = copy(node, lines)
    return old
