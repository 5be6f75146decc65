"""The training data as the loader gives it: which values occur, and which of them are no numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Figure
from mlcheck.probe.measure.drive import Clock
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial

FEW_BATCHES = 20
SECONDS = 5.0


@dataclass(slots=True)
class NonFinite:
    """Values that are NaN or infinite in one tensor of the batch; where the first of them was seen."""

    name: str
    batch: int
    row: int
    column: str
    value: str
    values: int = 0
    batches: int = 0


@dataclass(slots=True)
class Batches:
    """A pass over the training data: at least 20 batches, then as many as a few seconds allow."""

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 4

    batches: int
    samples: int
    whole_pass: bool
    tensors: tuple[str, ...]
    non_finite: list[NonFinite] = field(default_factory=list)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        clock = Clock(min(SECONDS, seconds / 4))
        found: dict[str, NonFinite] = {}
        count, samples, whole = 0, 0, True
        names: tuple[str, ...] = ()
        for index, batch in enumerate(trial.train_batches()):
            if count >= FEW_BATCHES and not clock.left():
                whole = False
                break
            names = names or tuple(name for name, _ in leaves(batch))
            samples += max((t.shape[0] for _, t in leaves(batch) if t.ndim), default=1)
            count += 1
            for name, tensor in leaves(batch):
                _look(part_of("batch", name), tensor, index, found)
        if not count:
            raise NotMeasured("the training data is empty")
        if not names:
            drawn = "the program draws its batches itself: none is seen before it is used"
            raise NotMeasured(drawn if trial.draws_batches else "a batch holds no tensor, as far as can be seen")
        return cls(count, samples, whole, names, list(found.values()))


def _look(name: str, tensor: Tensor, index: int, found: dict[str, NonFinite]) -> None:
    if not tensor.is_floating_point() and not tensor.is_complex():
        return
    bad = ~torch.isfinite(tensor)
    if not bool(bad.any()):
        return
    if name not in found:
        place = [int(i) for i in bad.nonzero()[0]]
        value = "NaN" if math.isnan(float(tensor[tuple(place)].real)) else "infinite"
        found[name] = NonFinite(name, index, place[0] if place else 0, ", ".join(map(str, place[1:])), value)
    found[name].values += int(bad.sum())
    found[name].batches += 1


def describe(name: str, tensor: Tensor) -> list[Any]:
    """A table row: name, shape, dtype, smallest, largest, mean, standard deviation, values that are no numbers."""
    row: list[Any] = [name, " × ".join(map(str, tensor.shape)) or "scalar", str(tensor.dtype).removeprefix("torch.")]
    values = tensor.detach().double().flatten() if not tensor.is_complex() else tensor.detach().abs().double().flatten()
    finite = values[values.isfinite()]
    if not finite.numel():
        return [*row, "", "", "", "", int(values.numel())]
    spread = float(finite.std(correction=0))
    bounds = [_short(float(number)) for number in (finite.min(), finite.max(), finite.mean(), spread)]
    return [*row, *bounds, int(values.numel() - finite.numel())]


DESCRIBED = ["input", "shape", "dtype", "min", "max", "mean", "std", "NaN or Inf"]


def _short(number: float) -> str:
    return f"{number:.4g}"


def table_figure(title: str, tensors: list[tuple[str, Tensor]]) -> Figure:
    return Figure("table", title, {"columns": DESCRIBED, "rows": [describe(name, tensor) for name, tensor in tensors]})
