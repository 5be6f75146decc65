"""Each step of an optimizer: how large its gradient was after backward and when it was applied, what moved."""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from mlcheck.probe.measure.modules import Names


@dataclass(frozen=True, slots=True)
class Update:
    """One optimizer's step. `norm` is its gradient's as applied, `raw` the same right after backward.

    `raw / norm` is what clipping (or a gradient scaler) divided by. `culprit` names the first parameter whose
    gradient is not finite.
    """

    step: int
    optimizer: str
    norm: float
    raw: float
    culprit: str


class UpdateWatch:
    """While entered, measures the gradients of all optimizers around their steps."""

    def __init__(self, parameters: list[Tensor], names: Names) -> None:
        self.updates: list[Update] = []
        self.step = 0
        self._parameters = parameters
        self._names = names
        self._raw: dict[int, float] = {}
        self._undo = ExitStack()

    def __enter__(self) -> Self:
        self._undo.callback(register_optimizer_step_pre_hook(self._before_step).remove)
        original = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            original(tensors, *args, **kwargs)
            held = [p for p in self._parameters if p.grad is not None]
            self._raw.update(zip(map(id, held), _norms(held)))

        torch.autograd.backward = backward
        self._undo.callback(setattr, torch.autograd, "backward", original)
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        held = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        norms = _norms(held)
        culprit = next((p for p, norm in zip(held, norms) if not math.isfinite(norm)), None)
        self.updates.append(
            Update(
                step=self.step,
                optimizer=type(optimizer).__name__,
                norm=math.hypot(*norms),
                raw=math.hypot(*(self._raw.get(id(p), 0.0) for p in held)),
                culprit="" if culprit is None else self._names.parameter(culprit),
            )
        )


@torch.no_grad()
def _norms(parameters: list[Tensor]) -> list[float]:
    """Of the gradients, all at once: one call for each would cost a small model more than its step."""
    if not parameters:
        return []
    gradients = [p.grad for p in parameters if p.grad is not None]
    values = [grad.coalesce().values() if grad.is_sparse else grad for grad in gradients]
    values = [torch.view_as_real(grad) if grad.is_complex() else grad for grad in values]
    norms = torch._foreach_norm(values, 2, dtype=torch.float64)
    found: list[float] = torch.stack([norm.to(norms[0].device) for norm in norms]).tolist()
    return found
