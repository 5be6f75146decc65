"""Layers that a constructor takes as `*layers`, and keeps in the tuple in which they come."""

from __future__ import annotations

import ast

from mlcheck.lint.nodes import last_name, stores
from mlcheck.lint.sites.layers.modules import holds_parameters
from mlcheck.lint.sites.model import Function
from mlcheck.lint.sites.origins import callers

_READS = ("len", "enumerate", "zip", "range", "reversed", "isinstance", "print", "all", "any", "list", "tuple")


def keeps_arguments(function: Function, value: ast.expr) -> bool:
    """`self.layers = layers` or `list(layers)` of such a parameter, for which a call of the class makes layers."""
    if isinstance(value, ast.Call) and last_name(value.func) in ("list", "tuple") and len(value.args) == 1:
        value = value.args[0]
    several = function.node.args.vararg
    if several is None or not isinstance(value, ast.Name) or value.id != several.arg:
        return False
    if stores(function.node, several.arg) or _is_handed_on(function, several.arg):
        return False
    before = len(function.node.args.posonlyargs) + len(function.node.args.args) - 1
    return any(
        isinstance(given, ast.Call) and holds_parameters(call.file, given, call.context)
        for call in callers(function.file.sites, function)
        for given in call.node.args[before:]
    )


def _is_handed_on(function: Function, name: str) -> bool:
    """Whether a call gets all of them, or one, that may register them: `super().__init__(*layers)`."""
    taken = {name}
    for node in function.nodes:
        if isinstance(node, ast.For) and any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node.iter)):
            taken |= {n.id for n in ast.walk(node.target) if isinstance(n, ast.Name)}
    for node in function.nodes:
        if isinstance(node, ast.Call) and last_name(node.func) not in _READS:
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            if any(isinstance(n, ast.Name) and n.id in taken for each in given for n in ast.walk(each)):
                return True
    return False
