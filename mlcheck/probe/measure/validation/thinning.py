"""Dropout that a program writes itself: values times a random mask of zeros, scaled by the share that is kept."""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drawing import DRAWING
from mlcheck.probe.measure.place import user_location

_ABOUT = 0.35
_TIMES = {torch.mul, Tensor.mul, Tensor.mul_, Tensor.__mul__, Tensor.__rmul__, Tensor.__imul__}
_PLUS = {torch.add, Tensor.add, Tensor.add_, Tensor.__add__, Tensor.__radd__, Tensor.__iadd__}
_OVER = {torch.div, Tensor.div, Tensor.div_, Tensor.__truediv__, Tensor.__itruediv__}


class Thinning(TorchFunctionMode):
    """While entered, keeps the `places` that multiply values by such a mask, scaled before, with it or after.

    A mask that is not scaled is none of these: what hides a part of the input may have a task that is to fill it in.
    Such are the `hiding` places; `jittering` are those that add random numbers of a size that is written in the code;
    both within a model in evaluation mode.
    """

    def __init__(self) -> None:
        super().__init__()
        self.places: list[Location] = []
        self.hiding: list[Location] = []
        self.jittering: list[Location] = []
        self._random: dict[int, Tensor] = {}
        self._masked: dict[int, tuple[Tensor, float]] = {}
        self._scaled: dict[int, tuple[Tensor, float]] = {}

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            with suppress(Exception):  # tensors that stand for others, as within vmap, are not looked at
                self._look(func, args, result)
        return result

    def _look(self, func: Any, args: tuple[Any, ...], result: Tensor) -> None:
        tensors = [one for one in args if isinstance(one, Tensor)]
        if func in DRAWING or (tensors and all(id(one) in self._random for one in tensors)):
            self._random[id(result)] = result
        elif func in _TIMES and len(tensors) == 2:
            self._multiply(tensors[0], tensors[1], result)
        elif func in _TIMES | _OVER and len(tensors) == 1:
            self._scale(tensors[0], _factor(func, args), result)
        elif func in _PLUS and len(tensors) == 2:
            self._add(tensors[0], tensors[1])

    def _multiply(self, one: Tensor, other: Tensor, result: Tensor) -> None:
        mask, values = (one, other) if id(one) in self._random else (other, one)
        if id(mask) not in self._random or id(values) in self._random or not values.is_floating_point():
            return
        kept = float(mask.max())
        if float(mask.min()) != 0 or not bool(((mask == 0) | (mask == kept)).all()):
            return
        share = float((mask != 0).double().mean())
        if _makes_up(kept, share) or (kept == 1 and _makes_up(self._scaled.get(id(values), (values, 1.0))[1], share)):
            self.places.append(user_location())
        elif kept == 1:
            self._masked[id(result)] = (result, share)
            self.hiding += [user_location()] if 0 < share < 1 and _in_evaluation() else []

    def _add(self, one: Tensor, other: Tensor) -> None:
        noise, values = (one, other) if id(one) in self._random else (other, one)
        varies = id(noise) in self._random and noise.numel() > 1 and bool((noise != noise.flatten()[0]).any())
        if varies and id(values) not in self._random and noise.is_floating_point() and values.shape == noise.shape:
            self.jittering += [user_location()] if _in_evaluation() else []

    def _scale(self, values: Tensor, factor: float, result: Tensor) -> None:
        if factor <= 1:
            return
        if id(values) in self._masked and _makes_up(factor, self._masked[id(values)][1]):
            self.places.append(user_location())
        else:
            self._scaled[id(result)] = (result, factor)


def _in_evaluation() -> bool:
    """Whether the nearest module whose `forward` this is part of is in evaluation mode."""
    frame = inspect.currentframe()
    while frame is not None:
        owner = frame.f_locals.get("self") if frame.f_code.co_name == "forward" else None
        if isinstance(owner, nn.Module):
            return not owner.training
        frame = frame.f_back
    return False


def _makes_up(factor: float, share: float) -> bool:
    """Whether the factor is that by which dropout makes up for the zeros: one over the share that is kept."""
    return factor > 1 and abs(factor * share - 1) < _ABOUT


def _factor(func: Any, args: tuple[Any, ...]) -> float:
    number = next((one for one in args if isinstance(one, (int, float)) and not isinstance(one, bool)), 0)
    return (1 / number if number else 0.0) if func in _OVER else float(number)
