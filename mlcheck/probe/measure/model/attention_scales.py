"""By what the scores of attention are multiplied before their softmax: 1 / sqrt(width) keeps them of one size.

Numbers that a query or key is multiplied or divided by on the way count as well; a learned factor ends the trace.
(Vaswani et al. 2017, section 3.2.1)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.watched_step import watch_step
from mlcheck.trial.trial import Trial

_EVEN = 1e-3


def _both(*names: str) -> set[Any]:
    return {getattr(home, name) for name in names for home in (torch, Tensor) if hasattr(home, name)}


_TIMES = _both("mul", "multiply") | {Tensor.__mul__, Tensor.__rmul__, Tensor.mul_}
_OVER = _both("div", "divide", "true_divide") | {Tensor.__truediv__, Tensor.div_}
_PRODUCTS = _both("matmul", "bmm") | {Tensor.__matmul__}
_SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax}
_PASSING = _both(
    *("transpose", "permute", "swapaxes", "movedim", "reshape", "view", "contiguous", "flatten", "unflatten"),
    *("masked_fill", "masked_fill_", "add", "sub", "clone"),
) | {Tensor.__add__, Tensor.__sub__, Tensor.mT.__get__}  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class Scale:
    """`factor` is what multiplies the products of queries and keys of `width` numbers each, at `place`."""

    place: Location
    width: int
    factor: float


@dataclass(frozen=True, slots=True)
class AttentionScales:
    """The scales of one training step, of queries and keys whose lengths are not made alike."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 3

    scales: tuple[Scale, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        watch = _Scores()
        watch_step(trial, watch.look)
        if not watch.scales:
            raise NotMeasured("no softmax of a product of queries and keys was seen")
        return cls(tuple(dict.fromkeys(watch.scales)))


@dataclass(frozen=True, slots=True)
class _Trace:
    """Numbers that a tensor was multiplied by; `width` is that of the product it is, 0 before there is one."""

    tensor: Tensor
    factor: float = 1.0
    width: int = 0


class _Scores:
    def __init__(self) -> None:
        self.scales: list[Scale] = []
        self._traces: dict[int, _Trace] = {}

    def look(self, func: Any, args: tuple[Any, ...], given: dict[str, Any], result: Tensor) -> None:
        first, second = args[0], args[1] if len(args) > 1 else None
        if func is F.scaled_dot_product_attention and isinstance(second, Tensor):
            if (scale := given.get("scale")) is not None and not _are_alike(first, second):
                self.scales.append(Scale(user_location(), first.shape[-1], float(scale)))
        elif func in _PRODUCTS and isinstance(second, Tensor):
            if result.ndim >= 3 and result.requires_grad and not _are_alike(first, second.transpose(-1, -2)):
                factor = self._of(first).factor * self._of(second).factor
                self._traces[id(result)] = _Trace(result, factor, first.shape[-1])
        elif func in _SOFTMAX and (trace := self._of(first)).width > 1:
            self.scales.append(Scale(user_location(), trace.width, trace.factor))
        elif func in _TIMES or func in _OVER:
            self._scaled(first, second, result, over=func in _OVER)
        elif func in _PASSING and id(first) in self._traces:
            trace = self._of(first)
            self._traces[id(result)] = _Trace(result, trace.factor, trace.width)

    def _of(self, tensor: Tensor) -> _Trace:
        return self._traces.get(id(tensor)) or _Trace(tensor)

    def _scaled(self, first: Tensor, second: Any, result: Tensor, *, over: bool) -> None:
        """A number, or a tensor of one number that is not learned."""
        if not first.requires_grad or (isinstance(second, Tensor) and (second.requires_grad or second.numel() != 1)):
            return
        number, trace = float(second), self._of(first)
        self._traces[id(result)] = _Trace(result, trace.factor / number if over else trace.factor * number, trace.width)


def _are_alike(query: Tensor, key: Tensor) -> bool:
    """Whether all queries, or all keys, have one length: attention by angles, of which any scale may be meant."""
    lengths = [one.detach().float().norm(dim=-1) for one in (query, key)]
    return any(float(one.std()) <= _EVEN * float(one.mean()) for one in lengths if one.numel() > 1)


def is_upside_down(scale: Scale) -> bool:
    return scale.width > 1 and math.isclose(scale.factor, math.sqrt(scale.width), rel_tol=1e-4)
