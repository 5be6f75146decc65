"""Which of the modules that a loop calls compare results, as a loss of the program's own does, and which are models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch import nn

from mlcheck.probe.measure.tree import leaves


def is_given_results(module: nn.Module, given: Any, outputs: Iterable[Any]) -> bool:
    """Whether it weighs nothing and gets what was computed before: with a graph, or as one of the `outputs`."""
    if _weighs(module):
        return False
    known = {id(tensor) for output in outputs for _, tensor in leaves(output)}
    return any(tensor.grad_fn is not None or id(tensor) in known for _, tensor in leaves(given))


def is_criterion(module: nn.Module, given: Any, output: Any) -> bool:
    """Whether it makes single numbers of several tensors, without weights of its own: a loss, or a metric."""
    if isinstance(module, nn.modules.loss._Loss):
        return True
    found = [tensor for _, tensor in leaves(output)]
    single = bool(found) and all(tensor.ndim == 0 for tensor in found)
    return single and not _weighs(module) and len([*leaves(given)]) > 1


def _weighs(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None
