"""`torch.no_grad()` and its like: which gradient mode they switch to."""

from __future__ import annotations

import ast

from mlcheck.lint.facts import GradMode
from mlcheck.lint.interpret.conditions import truth
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.values import NONE, Const, Object, Value

MANAGERS = frozenset(["torch.no_grad", "torch.inference_mode", "torch.enable_grad"])
SWITCHES = MANAGERS | {"torch.set_grad_enabled"}


def by_hand(m: Machine, value: Object, name: str, node: ast.AST) -> Value:
    """`torch.no_grad().__enter__()`, which stays on until somebody leaves it."""
    m.store.set(("grad",), of(m, value, node) if name == "__enter__" else GradMode("unknown", m.place(node)))
    return NONE


def of(m: Machine, value: Object, node: ast.AST) -> GradMode:
    """The gradient mode this context manager (or call of set_grad_enabled) switches to."""
    place = value.place or m.place(node)
    if value.type == "torch.enable_grad":
        return GradMode("on", place)
    if value.type == "torch.no_grad":
        return GradMode("off", place)
    argument = value.args[0] if value.args else value.kwargs.get("mode", Const(True))
    known, _ = truth(m, argument)
    if known is None:
        return GradMode("unknown", place)
    enabled = known if value.type == "torch.set_grad_enabled" else not known
    return GradMode("on" if enabled else "off", place)
