"""A copy of the model that the user's loop calls, on the CPU in float64 and in evaluation mode, and its outputs."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor, nn

from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.model.model_calls import CapturedCall
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.generators import seed_all


@dataclass(frozen=True)
class ExactModel:
    """`inputs` are the positional and named arguments of its captured call."""

    model: nn.Module
    inputs: Any

    @classmethod
    def of(cls, call: CapturedCall) -> Self:
        """Raises NotMeasured (inconclusive) where it cannot be copied, or does not do the same twice."""
        try:
            model = exact_copy(call.module).cpu().eval()
        except Exception as error:
            raise inconclusive(f"the model cannot be copied: {error}") from None
        exact = cls(model, map_tensors((call.args, call.kwargs), _double))
        once, again = outputs(model, exact.inputs), outputs(model, exact.inputs, 1)
        if not once or any(not torch.equal(one, other) for one, other in zip(once, again, strict=True)):
            raise inconclusive("two forward passes in evaluation mode differ, so another cannot be compared with them")
        return exact


def exact_copy(module: nn.Module) -> nn.Module:
    """A copy in float64, of the model itself where it is compiled or under a proxy, whose copies share its weights."""
    for name in ("_orig_mod", "__wrapped__"):
        module = getattr(module, name, module)
    return copy.deepcopy(module).double()


def outputs(model: Callable[..., Any], inputs: Any, seed: int = 0) -> list[Tensor]:
    seed_all(seed)
    args, kwargs = map_tensors(inputs, _copy)
    return [tensor.detach().clone() for _, tensor in leaves(model(*args, **kwargs))]


def distance(one: list[Tensor], other: list[Tensor]) -> float:
    """The largest distance of an output from the other, as a share of the largest output's norm; infinite where
    their shapes are others.
    """
    if [tensor.shape for tensor in one] != [tensor.shape for tensor in other]:
        return float("inf")
    size = max((float(tensor.double().norm()) for tensor in one), default=0.0) or 1.0
    return max((float((a.double() - b.double()).norm()) for a, b in zip(one, other)), default=0.0) / size


def _copy(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.preserve_format)


def _double(tensor: Tensor) -> Tensor:
    return tensor.detach().cpu().double() if tensor.is_floating_point() else tensor.detach().cpu().clone()
