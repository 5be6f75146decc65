"""Noise that one draw gives to all samples of a batch alike: broadcasting makes as many copies as there are samples."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import batch_size, copied, rows
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_NORMAL = {"randn", "randn_like", "normal", "normal_"}
_JOINING = {
    getattr(home, name)
    for home in (torch, Tensor)
    for name in ("add", "sub", "mul", "addcmul", "add_", "sub_", "mul_", "addcmul_")
    if hasattr(home, name)
} | {getattr(Tensor, f"__{name}__") for name in ("add", "radd", "iadd", "sub", "rsub", "isub", "mul", "rmul", "imul")}
_SCALING = {
    getattr(home, name) for home in (torch, Tensor) for name in ("mul", "multiply", "div", "divide", "true_divide")
} | {getattr(Tensor, f"__{name}__") for name in ("mul", "rmul", "truediv")}
_SHAPING_LIKE = {"expand_as", "view_as", "reshape_as", "type_as", "to"}
_FEW = 3


@dataclass(frozen=True, slots=True)
class Shared:
    """Normal numbers of shape `drawn` that `operation` joins with a row for each sample, `values`."""

    drawn: tuple[int, ...]
    values: tuple[int, ...]
    operation: str
    place: Location


@dataclass(frozen=True, slots=True)
class SharedNoise:
    """The draws of one step that meet the samples of a batch, one by one or all alike."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 3

    shared: tuple[Shared, ...]
    joined: int

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if called & _NORMAL else "a step draws no normal numbers"

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - two steps, whatever the limit
        batch = first_batches(trial, 1)[0]
        size = batch_size(batch)
        if size is None or size < 2 * _FEW:
            raise NotMeasured("the batch has too few samples side by side")
        whole = _watched(trial, batch, size)
        if not whole.joined:
            raise NotMeasured("no normal numbers are added to what is made of the samples, or multiplied with it")
        part = whole
        with suppress(Exception):  # a program for batches of one size
            part = _watched(trial, rows(batch, torch.arange(size - 1)), size - 1) if whole.found else whole
        again = {(one.operation, one.place) for one in part.found}
        found = {one.place: one for one in whole.found if (one.operation, one.place) in again}
        return cls(tuple(found.values()), whole.joined)


def _watched(trial: Trial, batch: Any, size: int) -> _Draws:
    watch = _Draws(size)
    with restored(trial), stilled(trial), watch:
        seed_all(0)
        trial.train_step(copied(batch), 0)
    return watch


@dataclass(frozen=True, slots=True)
class _Noise:
    """A tensor made of one draw of shape `drawn`: `base` is what it was before it was scaled sample by sample."""

    tensor: Tensor
    drawn: tuple[int, ...]
    base: Tensor


class _Draws(TorchFunctionMode):
    """Follows normal numbers through what is made of them alone, or is them times one number a sample."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.found: list[Shared] = []
        self.joined = 0
        self._size = size
        self._drawn: dict[int, _Noise] = {}

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor):
            with suppress(Exception):  # tensors that stand for others, as within vmap, are not looked at
                self._look(func, args, result)
        return result

    def _look(self, func: Any, args: tuple[Any, ...], result: Tensor) -> None:
        name = getattr(func, "__name__", "")
        tensors = [one for one in args if isinstance(one, Tensor)]
        known = [self._drawn[id(one)] for one in tensors if id(one) in self._drawn]
        if name in _NORMAL:
            self._drawn[id(result)] = _Noise(result, tuple(result.shape), result)
        elif known and (len(known) == len(tensors) or name in _SHAPING_LIKE) and known[0].tensor is tensors[0]:
            base = func(known[0].base, *args[1:]) if known[0].base is not known[0].tensor else result
            self._drawn[id(result)] = _Noise(result, known[0].drawn, base)
        elif known and func in _JOINING | _SCALING:
            values = [one for one in tensors if id(one) not in self._drawn and not isinstance(one, nn.Parameter)]
            self._meet(func, known[0], values, result)

    def _meet(self, func: Any, noise: _Noise, values: list[Tensor], result: Tensor) -> None:
        if func in _SCALING and values and all(self._is_one_a_sample(one) for one in values):
            self._drawn[id(result)] = _Noise(result, noise.drawn, noise.base.expand_as(result))
        elif func in _JOINING and values:
            self._join(func.__name__.strip("_"), noise, max(values, key=lambda one: one.requires_grad))

    def _is_one_a_sample(self, values: Tensor) -> bool:
        return not values.requires_grad and values.ndim > 0 and len(values) == self._size == values.numel()

    def _join(self, operation: str, noise: _Noise, values: Tensor) -> None:
        """What is given to a model may be changed on purpose, all samples alike, by a number a channel."""
        if not values.ndim or len(values) != self._size:
            return
        self.joined += 1
        spread = noise.base.expand_as(values)
        full = noise.base.numel() >= values[0].numel() > 1
        alike = bool((spread == spread[:1]).all()) and bool((spread != 0).any())  # noise may be faded in
        if alike and (values.requires_grad or full):
            self.found.append(Shared(noise.drawn, tuple(values.shape), operation, user_location()))
