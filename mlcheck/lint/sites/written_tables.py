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
    tables = [table]
    for _ in range(_STEPS):
        steps = [[each] if _is_written(each.node) else list(back(each)) for each in tables if not _may_change(each)]
        if len(steps) < len(tables) or not all(steps) or len(tables) > _MANY:
            return []
        tables = [step for further in steps for step in further]
    found = [(each, each.file.item_of(each.node, each.context, key)) for each in tables]
    if any(held is None or held is OPEN for _, held in found):
        return []
    return [
        each._replace(node=held, context=each.file.value(each.node, each.context)[1], item=-1)
        for each, held in found
        if isinstance(held, ast.expr)
    ]


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
