"""Optimizers that are handed, by name, to a function that steps whichever it is given."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.model import Call, Function
from mlcheck.lint.sites.project import Sites


def stepped_by_others(sites: Sites) -> frozenset[tuple[str, str]]:
    """`gen_opt` of `self.optimize(self.gen_opt, loss)`, with `def optimize(opt, loss): ...; opt.step()`; and where."""
    found: set[tuple[str, str]] = set()
    seen: set[tuple[Function, str]] = set()
    todo = [pair for file in sites.mentioning([".step("]) for call in file.calls("step") for pair in _parameter(call)]
    while todo:
        function, name = todo.pop()
        if (function, name) in seen:
            continue
        seen.add((function, name))
        at = list(function.parameters).index(name) - bool(function.receiver)
        for file in sites.mentioning([f"{function.name}("]):
            for call in file.calls(function.name):
                given = call.argument(name, at)
                if isinstance(given, ast.expr):
                    found.add((file.path, last_name(given)))
                    todo += _own(call.function, given)
    return frozenset(found)


def _parameter(step: Call) -> list[tuple[Function, str]]:
    """The function around `opt.step()`, and its parameter."""
    owner = step.node.func.value if isinstance(step.node.func, ast.Attribute) else None
    return _own(step.function, owner) if not step.node.args else []


def _own(function: Function | None, node: ast.expr | None) -> list[tuple[Function, str]]:
    if function is None or not isinstance(node, ast.Name) or node.id not in function.parameters:
        return []
    return [(function, node.id)] if node.id != function.receiver else []
