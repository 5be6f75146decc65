"""Methods of a gradient scaler."""

from __future__ import annotations

import ast

from mlcheck.lint.interpret.equalities import supposing
from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.pytorch import gradients
from mlcheck.lint.pytorch.scaling import is_off, scale, unscale
from mlcheck.lint.values import NONE, Args, Kwargs, Select, Value


def method(m: Machine, owner: Value, name: str, args: Args, kwargs: Kwargs, node: ast.AST) -> Value:
    """`owner.name(...)` of a scaler."""
    first = args[0] if args else next(iter(kwargs.values()), NONE)
    if name == "scale":
        return scale(m, owner, first)
    if name == "unscale_":
        unscale(m)
    elif name == "step":
        _step(m, first, node, scaler=not is_off(owner))
        if not set(kwargs) <= {"optimizer", "closure"}:
            gradients.zero_anything(m, node)  # handed on to an optimizer that may clear them as well
    return m.symbol()


def _step(m: Machine, optimizer: Value, node: ast.AST, scaler: bool) -> None:
    """`scaler.step(optimizer)`; of several that it may be, each as if it were the one in use."""
    if isinstance(optimizer, Select):
        known = m.assumed(optimizer.key)
        if known is not None:
            _step(m, optimizer.then if known else optimizer.other, node, scaler)
            return
        for side, holds in ((optimizer.then, True), (optimizer.other, False)):
            with supposing(m, optimizer.key, holds):
                _step(m, side, node, scaler)
    elif gradients.is_optimizer(m, optimizer):
        gradients.step(m, node, optimizer, scaler=scaler)
