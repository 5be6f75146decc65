"""Calls of what stands in for a function or class: a `functools.partial`, a table's entry, an attribute."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from mlcheck.lint.names import canonical
from mlcheck.lint.nodes import is_name
from mlcheck.lint.sites.model import Call

if TYPE_CHECKING:
    from mlcheck.lint.sites.file import File
    from mlcheck.lint.sites.project import Sites


def of_partials(sites: Sites) -> list[Call]:
    """Calls of `make`, where `make = functools.partial(DataLoader, batch_size=8)`: as calls of what it wraps."""
    return [
        Call(file, call.node, call.context, canonical(name), tuple(partial.node.keywords))
        for file in sites.calling(["partial"])
        for partial in file.calls("partial")
        if len(partial.node.args) == 1 and all(keyword.arg for keyword in partial.node.keywords)
        for name in [file.resolve(partial.node.args[0], partial.context)]
        if isinstance(name, str) and "." in name
        for bound in file.names_given(partial.node)
        for call in file.calls(bound)
        if _holds(file, call, partial.node)
    ]


def of_tables(sites: Sites) -> list[Call]:
    """Calls of `LAYERS["linear"]` and `getattr(nn, "Linear")`, and of names that are given such."""
    return [
        call
        for file in sites.files.values()
        if not file.is_test
        for call in file.calls("", *sorted(file.walk.aliases.get("", ())))
        if not isinstance(call.node.func, ast.Attribute) and is_of_library(call)
    ]


def of_attributes(sites: Sites) -> list[Call]:
    """Calls of `self.drop`, where `self.drop = F.dropout` is all that the attribute is ever given."""
    return [
        Call(file, call.node, call.context, canonical(name))
        for file in sites.files.values()
        if not file.is_test
        for assigned in file.walk.attributes
        if assigned.target.attr in file.walk.calls and isinstance(assigned.value, ast.Name | ast.Attribute)
        for name in [file.resolve(assigned.value, assigned.context)]
        if isinstance(name, str) and "." in name
        for call in file.calls(assigned.target.attr)
        if _holds(file, call, assigned.value)
    ]


def is_of_library(call: Call) -> bool:
    """Whether a library's function or class is called; the call takes its name in the canonical form."""
    named = call.file.resolve(call.node.func, call.context)
    if isinstance(named, str):
        call.name = canonical(named)
    return bool(call.name)


def _holds(file: File, call: Call, value: ast.expr) -> bool:
    """Whether the name, or the attribute of the own object, that is called is given this value alone."""
    func = call.node.func
    if isinstance(func, ast.Name):
        bindings = file.bindings(func.id, call.context)
        return len(bindings) == 1 and bindings[0].value is value
    caller = file.method_around(call.context)
    if caller is None or caller.cls is None or not isinstance(func, ast.Attribute):
        return False
    sets = caller.cls.attribute(func.attr)
    return is_name(func.value, caller.receiver) and len(sets) == 1 and sets[0][1].value is value
