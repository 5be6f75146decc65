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


class _Draws(TorchFunctionMode):
    """Follows normal numbers through what is made of them alone."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.found: list[Shared] = []
        self.joined = 0
        self._size = size
        self._drawn: dict[int, tuple[Tensor, tuple[int, ...]]] = {}

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
        if name in _NORMAL:
            self._drawn[id(result)] = result, tuple(result.shape)
        elif tensors and id(tensors[0]) in self._drawn and all(id(one) in self._drawn for one in tensors):
            self._drawn[id(result)] = result, self._drawn[id(tensors[0])][1]
        elif func in _JOINING:
            noise = [one for one in tensors if id(one) in self._drawn]
            values = [one for one in tensors if id(one) not in self._drawn and not isinstance(one, nn.Parameter)]
            if noise and values:
                self._join(name.strip("_"), noise[0], max(values, key=lambda one: one.requires_grad))

    def _join(self, operation: str, noise: Tensor, values: Tensor) -> None:
        """What is given to a model may be changed on purpose, all samples alike, by a number a channel."""
        if not values.ndim or len(values) != self._size:
            return
        self.joined += 1
        spread = noise.expand_as(values)
        drawn = self._drawn[id(noise)][1]
        full = noise.numel() >= values[0].numel() > 1
        alike = bool((spread == spread[:1]).all()) and bool((spread != 0).any())  # noise may be faded in
        if alike and (values.requires_grad or full):
            self.found.append(Shared(drawn, tuple(values.shape), operation, user_location()))
