"""Dictionaries that a program writes out, found from where one of their entries is read."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.model import OPEN

if TYPE_CHECKING:
    from mlcheck.lint.sites.origins import Origin

_STEPS, _MANY = 5, 40


def entries_of(table: Origin, key: str, back: Callable[[Origin], Iterator[Origin]]) -> list[Origin]:
    """What all dictionaries that `table` may be have under the key; nothing unless each is written out and stays so.

    `back` goes one step back to where a value comes from: they may be returned by a function, stand in a record or in
    another file.
    """
    found: list[Origin] = []
    todo = [table]
    for _ in range(_STEPS):
        tables, todo = todo, []
        for each in tables:
            written = _is_written(each.node)
            held = each.file.item_of(each.node, each.context, key) if not written or not _may_change(each) else None
            if held is not None and held is not OPEN:
                found.append(each._replace(node=held, context=each.file.value(each.node, each.context)[1], item=-1))
                continue
            steps = [] if written or _may_change(each) else list(back(each))
            if not steps:
                return []
            todo += steps
        if not todo or len(todo) > _MANY:
            break
    return found if not todo else []


def _is_written(node: ast.expr) -> bool:
    return isinstance(node, ast.Dict) or (isinstance(node, ast.Call) and is_name(node.func, "dict") and not node.args)


def _may_change(table: Origin) -> bool:
    """Whether entries are put into it later, or it is itself an entry, which may lead back to itself."""
    file, node = table.file, table.node
    if isinstance(node, ast.Attribute):
        return node.attr in file.walk.mutated_attributes
    if isinstance(node, ast.Name):
        return file.is_mutated(node.id, table.context)
    names = file.names_given(node) if _is_written(node) else ()
    changed = any(name in file.walk.mutated_attributes or file.is_mutated(name, table.context) for name in names)
    return changed or isinstance(node, ast.Subscript)
