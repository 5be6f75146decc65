"""How attention takes its heads apart and puts them together: by moving dimensions, or by reading in another order.

A tensor (batch, tokens, width) that is viewed as (batch, heads, tokens, width / heads) has the shape of one whose heads
were moved before the tokens, and holds in each head a stretch of the tokens instead. So does (batch, tokens, heads,
width) that is viewed so.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.watched_step import watch_step
from mlcheck.trial.trial import Trial

_VIEWS = {Tensor.view, Tensor.reshape, torch.reshape}
_PRODUCTS = {torch.matmul, Tensor.matmul, Tensor.__matmul__}
_ALIKE = {
    getattr(Tensor, name) for name in ("transpose", "contiguous", "__mul__", "__truediv__", "mul", "div", "float")
}

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scrambled:
    """A view of `before` as `after` that attention reads, or that reads attention's result."""

    before: Shape
    after: Shape
    place: Location


@dataclass(frozen=True, slots=True)
class AttentionHeads:
    """What one training step shows: products of (batch, heads, tokens, width) tensors, and the wrong views at them."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    products: int
    scrambled: tuple[Scrambled, ...]

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        products = {product.__name__ for product in (*_PRODUCTS, F.scaled_dot_product_attention)}
        return "" if called & products else "no products of attention were computed"

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        watch = _Watch()
        watch_step(trial, watch.look)
        return cls(watch.products, tuple({one.place: one for one in watch.scrambled}.values()))


class _Watch:
    def __init__(self) -> None:
        self.products = 0
        self.scrambled: list[Scrambled] = []
        self._apart: dict[int, Scrambled] = {}
        self._results: set[int] = set()
        self._kept: list[Tensor] = []

    def look(self, func: Any, args: tuple[Any, ...], _kwargs: dict[str, Any], result: Tensor) -> None:
        given = args[0]
        if func in _VIEWS:
            self._view(given, result)
        elif func in _ALIKE and id(given) in self._apart:
            self._apart[id(result)] = self._apart[id(given)]
        elif func is F.scaled_dot_product_attention or (func in _PRODUCTS and given.ndim == 4):
            self.products += 1
            operands = [one for one in args[:2] if isinstance(one, Tensor)]
            if len(operands) == 2 and all(id(one) in self._apart for one in operands):
                self.scrambled.append(self._apart[id(given)])
            self._results.add(id(result))
        else:
            return
        self._kept.append(result)

    def _view(self, given: Tensor, result: Tensor) -> None:
        before, after = tuple(given.shape), tuple(result.shape)
        seen = Scrambled(before, after, user_location())
        if _moves_heads(before, after):
            self._apart[id(result)] = seen
        elif id(given) in self._results and _moves_heads(after, before):
            self.scrambled.append(seen)


def _moves_heads(flat: Shape, apart: Shape) -> bool:
    """(n, t, h * w), or (n, t, h, w), beside (n, h, t, w)."""
    if len(apart) != 4:
        return False
    heads, tokens, width = apart[1:]
    whole = flat in ((apart[0], tokens, heads * width), (apart[0], tokens, heads, width))
    return whole and heads > 1 and tokens > 1 and heads != tokens
