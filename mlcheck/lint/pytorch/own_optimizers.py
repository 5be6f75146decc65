"""Optimizers of the project's own: `class Lion(torch.optim.Optimizer)`, whose `step` is read like any method."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import lru_cache

from mlcheck.lint.interpret.machine import Machine
from mlcheck.lint.program import FunctionInfo
from mlcheck.lint.pytorch import gradients
from mlcheck.lint.values import Object, Value, owner_key

_MORE = (".step(", "zero_grad", "zero_(", ".grad = None", ".backward(")
"""What a `step` does that clears gradients, computes others, or leaves the work to somebody else."""


def step(m: Machine, owner: Object, method: FunctionInfo, run: Callable[[], Value], node: ast.AST) -> Value:
    """`optimizer.step()`: followed, and taken for the step that it is where it does nothing else."""
    key = owner_key(owner)
    before = m.store.get(("grads", key))
    result = run()
    whole = owner.cls is not None and owner.cls.find("zero_grad") is None
    if whole and before is not None and m.store.get(("grads", key)) == before and _is_plain(method):
        gradients.step(m, node, owner)
    return result


@lru_cache(1024)
def _is_plain(method: FunctionInfo) -> bool:
    """Whether it reads gradients, and does nothing more to them."""
    text = method.module.text_of(method.node)
    return ".grad" in text and not any(word in text for word in _MORE)
