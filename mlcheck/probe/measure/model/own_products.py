"""Products of the data with a parameter of the program's own, written out where others have a layer."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mlcheck.probe.measure.modules import Names

_LARGE = 10.0
_TIMES = {torch.mul, Tensor.mul, Tensor.__mul__, Tensor.__rmul__}
_CONTRACTED = {torch.matmul, Tensor.matmul, Tensor.__matmul__, torch.mm, Tensor.mm, torch.einsum, F.linear}


class OwnProducts(TorchFunctionMode):
    """While entered, keeps what `parameters` are multiplied with, by their names: numbers that nothing trained made.

    Only what is as large after the product as before is kept: a parameter may be there to bring it to scale. One number
    a sample or place that meets a vector, as a time meets frequencies, is no row of features.
    """

    def __init__(self, parameters: dict[int, str]) -> None:
        super().__init__()
        self.given: dict[str, list[Tensor]] = {}
        self._parameters = parameters

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if (func in _TIMES or func in _CONTRACTED) and isinstance(result, Tensor) and torch.is_grad_enabled():
            with suppress(Exception):  # tensors that stand for others, as within vmap, are not looked at
                self._look(func, [one for one in args if isinstance(one, Tensor)][:2], result)
        return result

    def _look(self, func: Any, pair: list[Tensor], result: Tensor) -> None:
        name = next((self._parameters[id(one)] for one in pair if id(one) in self._parameters), "")
        given = next((one for one in pair if not one.requires_grad), None)
        if not name or given is None or not given.is_floating_point() or given.ndim < 2 or not given.numel():
            return
        weight = next(one for one in pair if one is not given)
        if (func in _CONTRACTED or _meets_features(given, weight)) and min(_rms(given), _rms(result)) > _LARGE:
            self.given.setdefault(name, []).append(given.detach().cpu())


def own_parameters(models: Iterable[nn.Module], names: Names) -> dict[int, str]:
    """Trained parameters that no layer of torch's owns."""
    return {
        id(parameter): names.parameter(parameter)
        for model in models
        for module in model.modules()
        if not type(module).__module__.startswith("torch.nn.") and not hasattr(module, "in_features")
        for parameter in module.parameters(recurse=False)
        if parameter.requires_grad
    }


def _meets_features(given: Tensor, weight: Tensor) -> bool:
    """Whether along a dimension, the first aside, each has its own number for every feature."""
    pairs = zip(reversed(given.shape[1:]), reversed(weight.shape))
    return any(one == other > 1 for one, other in pairs)


def _rms(values: Tensor) -> float:
    return float(values.detach().double().square().mean().sqrt())
