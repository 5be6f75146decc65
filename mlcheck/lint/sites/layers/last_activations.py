"""Modules whose forward pass ends with a ReLU, as their text tells."""

from __future__ import annotations

import ast

from mlcheck.lint.facts import Place
from mlcheck.lint.nodes import last_name
from mlcheck.lint.sites.file import File
from mlcheck.lint.sites.guards import own_attribute
from mlcheck.lint.sites.latest import source
from mlcheck.lint.sites.model import Class, Function
from mlcheck.lint.sites.origins import returns
from mlcheck.lint.sites.scopes import Context

_RELUS = frozenset(["torch.relu", "torch.nn.functional.relu", "torch.nn.functional.relu_", "torch.nn.ReLU"])


def final_relu(cls: Class) -> Place | None:
    """The ReLU that makes whatever a module returns, where each of its returns goes through the same."""
    forward = cls.find("forward")
    ends = [_relu(forward, given) for given in returns(forward)] if forward is not None else []
    return ends[0] if ends and all(end is not None and end == ends[0] for end in ends) else None


def _relu(forward: Function, given: ast.expr) -> Place | None:
    """`F.relu(self.out(x))`, `self.relu(x)`, and `self.layers(x)` of a stack that ends with one."""
    made, context = source(forward.file, given, forward.inner)
    if not isinstance(made, ast.Call):
        return None
    if forward.file.called(made, context) in _RELUS or (last_name(made.func) == "relu" and not made.args):
        return forward.place(made)
    name = own_attribute(made.func, forward)
    sets = forward.cls.attribute(name) if forward.cls is not None and name else []
    if len(sets) != 1 or sets[0][1].value is None:
        return None
    where, assigned = sets[0]
    layer = _last_layer(where.file, assigned.value, assigned.context)
    return where.place(layer) if layer is not None else None


def _last_layer(file: File, node: ast.expr | None, context: Context) -> ast.Call | None:
    """The ReLU itself, or the one that a `Sequential` ends with."""
    called = file.called(node, context)
    if not isinstance(node, ast.Call) or called not in ("torch.nn.ReLU", "torch.nn.Sequential"):
        return None
    if called == "torch.nn.ReLU":
        return node
    return _last_layer(file, node.args[-1], context) if node.args else None
