"""Which layers a method comes to, by itself and by the methods of its class that it calls."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.model import Class


def comes_to(cls: Class, method: str, width: str) -> bool:
    """Whether a method of that name, if there is one, reads a linear layer with `width` outputs."""
    layers = {
        name
        for base in cls.line
        for name, assignments in base.attributes.items()
        for _, assigned in assignments
        if isinstance(assigned.value, ast.Call)
        and last_name(assigned.value.func) == "Linear"
        and width in map(ast.unparse, assigned.value.args[1:2])
    }
    todo, seen = [method], set[str]()
    while todo:
        name = todo.pop()
        found = cls.find(name)
        if found is None:
            return name == method
        read = {node.attr for node in found.all(ast.Attribute)}
        if read & layers:
            return True
        seen.add(name)
        todo += sorted(other for other in read if cls.find(other) is not None and other not in seen)
    return False
