"""Ratios of overlaps, as in Dice and IoU: the sum of predictions times a mask, over the sum of the same predictions.

They mean something, and have bounds, where the predictions are shares from 0 to 1. Scores have any sign, so that the
sum below the line may be zero.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.watched_step import watch_step
from mlcheck.trial.trial import Trial

_PRODUCTS = {"mul", "__mul__", "__rmul__", "multiply"}
_SUMS = {"sum", "mean"}
_RATIOS = {"div", "__truediv__", "true_divide", "divide"}
_VIEWS = {"view", "reshape", "flatten", "contiguous", "squeeze", "unsqueeze", "permute", "transpose", "float", "clone"}
_KEEPING = {*_VIEWS, *_PRODUCTS, *_SUMS, "add", "__add__", "__radd__", "sub", "__sub__", "clamp", "clamp_min"}
_SHAPING, _LINEAR = ("View", "UnsafeView", "Squeeze", "ReshapeAlias"), ("Convolution", "Addmm", "Mm")

_Part = tuple[str, Any]  # "overlap" or "whole", and the node of the graph that made the predictions


@dataclass(frozen=True, slots=True)
class Ratio:
    """The range of the predictions in it, the share of them below zero, and whether they are a layer's raw output."""

    low: float
    high: float
    below: float
    raw: bool
    place: Location


@dataclass(frozen=True, slots=True)
class OverlapRatios:
    """Those of one training step."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    ratios: tuple[Ratio, ...]

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if called & _SUMS and called & _RATIOS and called & _PRODUCTS else "no sums are divided"

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        watch = _Watch()
        watch_step(trial, watch.look)
        if not watch.ratios:
            raise NotMeasured("no sum of masked predictions is divided by the sum of all")
        return cls(tuple({one.place: one for one in watch.ratios}.values()))


class _Watch:
    """Follows predictions by their place in the graph, and keeps none of them: activations may fill the memory."""

    def __init__(self) -> None:
        self.ratios: list[Ratio] = []
        self._parts: dict[Any, frozenset[_Part]] = {}
        self._viewed: dict[Any, Any] = {}
        self._predictions: dict[Any, weakref.ref[Tensor]] = {}

    def look(self, func: Any, args: tuple[Any, ...], _kwargs: dict[str, Any], result: Tensor) -> None:
        if result.grad_fn is None:
            return
        name, given = func.__name__, [one for one in args if isinstance(one, Tensor)]
        if name in _VIEWS and given[0].grad_fn is not None:
            self._viewed[result.grad_fn] = self._own(given[0])
        if name in _RATIOS and len(given) == 2:
            self._ratio(*(self._parts.get(one.grad_fn, frozenset()) for one in given))
            return
        masked = _masked(given) if name in _PRODUCTS else None
        if masked is not None:
            self._parts[result.grad_fn] = frozenset({("overlap", self._own(masked))})
        elif name in _KEEPING and (parts := self._of(name, given)):
            self._parts[result.grad_fn] = parts

    def _own(self, tensor: Tensor) -> Any:
        """The node of the tensor that this is another view of."""
        own = self._viewed.get(tensor.grad_fn, tensor.grad_fn)
        if own not in self._predictions or self._predictions[own]() is None:
            self._predictions[own] = weakref.ref(tensor)
        return own

    def _of(self, name: str, given: list[Tensor]) -> frozenset[_Part]:
        parts = frozenset().union(*(self._parts.get(one.grad_fn, frozenset()) for one in given))
        if not parts and name in _SUMS and given[0].grad_fn is not None:
            return frozenset({("whole", self._own(given[0]))})
        return parts

    def _ratio(self, above: frozenset[_Part], below: frozenset[_Part]) -> None:
        for kind, which in above:
            if kind == "overlap" and ("whole", which) in below and ("whole", which) not in above:
                predictions = self._predictions[which]()
                if predictions is None:
                    continue
                values = predictions.detach().double()
                low, high, negative = float(values.min()), float(values.max()), float((values < 0).double().mean())
                self.ratios.append(Ratio(low, high, negative, _is_raw(which), user_location()))


def _masked(given: list[Tensor]) -> Tensor | None:
    """The predictions in a product of them with a mask of zeros and ones."""
    if len(given) != 2 or given[0].shape != given[1].shape:
        return None
    learnt = [one for one in given if one.grad_fn is not None]
    masks = [one for one in given if not one.requires_grad and bool(((one == 0) | (one == 1)).all()) and one.any()]
    return learnt[0] if learnt and masks and not bool(masks[0].all()) else None


def _is_raw(node: Any) -> bool:
    """Whether a convolution or a linear layer gives them, which give any number."""
    while node is not None and node.name().startswith(_SHAPING):
        node = node.next_functions[0][0]
    return node is not None and node.name().startswith(_LINEAR)
