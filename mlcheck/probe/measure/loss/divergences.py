"""What enters the Kullback-Leibler divergences of a training step: distributions, and along which dimension."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 2
FEW = 3
_TOLERANCE = 1e-4
_HALF_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True)
class Side:
    """One argument of a divergence: along which dimensions it sums to one, as it is and after `exp`, and its range.

    `made_by` is the operation that made it, where its graph says so.
    """

    sums: tuple[int, ...]
    exp_sums: tuple[int, ...]
    low: float
    high: float
    made_by: str = ""

    @property
    def is_distribution(self) -> bool:
        return self.low >= 0 and bool(self.sums)

    @property
    def is_log_distribution(self) -> bool:
        return bool(self.exp_sums) and self.high <= _HALF_TOLERANCE


@dataclass(frozen=True, slots=True)
class Divergence:
    """All calls of `kl_div` at one place."""

    place: Location
    shape: tuple[int, ...]
    log_target: bool
    input: Side
    target: Side


@dataclass(frozen=True, slots=True)
class Divergences:
    """The divergences that feed a backward pass, by place."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    calls: tuple[Divergence, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        watch = LossWatch()
        with restored(trial), watch:
            for index, batch in enumerate(first_batches(trial, BATCHES)):
                trial.train_step(batch, index)
        places: dict[Location, list[LossCall]] = {}
        for call in watch.divergences:
            if call.node is not None and call.input.shape == call.target.shape and call.input.ndim:
                places.setdefault(call.place, []).append(call)
        if not places:
            raise NotMeasured("no Kullback-Leibler divergence was computed in the training steps")
        return cls(tuple(_summary(calls) for calls in places.values()))


def _summary(calls: list[LossCall]) -> Divergence:
    first = calls[0]
    made_by = first.made_by if all(call.made_by == first.made_by for call in calls) else ""
    return Divergence(
        first.place,
        tuple(first.input.shape),
        bool(first.options.get("log_target")),
        _side([call.input for call in calls], made_by),
        _side([call.target for call in calls]),
    )


def _side(values: list[Tensor], made_by: str = "") -> Side:
    """A dimension of one or two numbers proves nothing by its sum, nor does one sum alone."""
    half = values[0].dtype in (torch.float16, torch.bfloat16)
    tolerance = _HALF_TOLERANCE if half else _TOLERANCE
    dims = [dim for dim, size in enumerate(values[0].shape) if size >= FEW and values[0].numel() > size]
    wide = [value.double() for value in values]
    return Side(
        tuple(d for d in dims if all(_sums_to_one(value, d, tolerance) for value in wide)),
        tuple(d for d in dims if all(_sums_to_one(value.exp(), d, tolerance) for value in wide)),
        min(float(value.min()) for value in wide),
        max(float(value.max()) for value in wide),
        made_by,
    )


def _sums_to_one(values: Tensor, dim: int, tolerance: float) -> bool:
    return bool(((values.sum(dim) - 1).abs() <= tolerance).all())
