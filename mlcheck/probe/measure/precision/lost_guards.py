"""Constants that keep a logarithm or a quotient from zero, and are zero themselves in float16.

Half precision rounds 1e-8 to 0: the smallest number it holds is 6e-8. A value counts as half where CUDA would have it
so, and not where the result of an operation that CUDA computes in float32 went into it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.weak import WeakIdKeyDictionary

from mlcheck.core.finding import Location
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.tree import leaves

_ADDS = {"add", "add_", "clamp", "clamp_", "clamp_min", "clamp_min_"}
_ENDS_AT_ZERO = {"log", "log2", "log10", "rsqrt", "reciprocal"}
_PASSES_ON = {"_to_copy", "view", "sqrt", "expand", "unsqueeze", "squeeze"}
_IN_FLOAT32 = {
    "pow", "sum", "norm", "linalg_vector_norm", "prod", "cumsum", "cumprod", "exp", "expm1", "log", "log1p", "log2",
    "log10", "_softmax", "_log_softmax", "reciprocal", "rsqrt", "dist", "_cdist_forward", "acos", "asin", "cosh",
    "sinh", "tan",
}  # fmt: skip
_PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "convolution", "_convolution", "mkldnn_convolution", "linear"}


class LostGuards(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the first such constant whose sum is taken the logarithm of, or divided by."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.told = ""
        self.place = Location()
        self._single: Any = WeakIdKeyDictionary()
        self._guarded: Any = WeakIdKeyDictionary()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self.told and isinstance(result, Tensor):
            self._follow(func.__name__.partition(".")[0], args, kwargs or {}, result)
        return result

    def _follow(self, name: str, args: Any, kwargs: Any, result: Tensor) -> None:
        given = [tensor for _, tensor in leaves(list(args))]
        if name in _IN_FLOAT32 or (name not in _PRODUCTS and any(tensor in self._single for tensor in given)):
            self._single[result] = True
        guard = next((self._guarded[tensor] for tensor in given if tensor in self._guarded), None)
        if name in _ADDS and given and given[0].dtype is torch.float16 and given[0] not in self._single:
            constant = _constant(args, kwargs)
            if constant and float(torch.tensor(constant, dtype=torch.float16)) == 0.0:
                self._guarded[result] = constant, user_location()
        elif guard and name in _PASSES_ON:
            self._guarded[result] = guard
        elif guard and (name in _ENDS_AT_ZERO or (name == "div" and len(given) > 1 and given[1] in self._guarded)):
            constant, self.place = guard
            self.told = f"{constant:g}, which keeps `{name}` from zero,"


def _constant(args: Any, kwargs: Any) -> float:
    numbers = [value for value in (*args[1:2], kwargs.get("min")) if isinstance(value, float)]
    return numbers[0] if numbers else 0.0
