"""Forecasts that begin before their input ends: numbers that are asked for and stand in the input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import exclusively_evaluating, first_batches
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.model_calls import CapturedCall, capture
from mlcheck.probe.measure.model.next_values import FARTHEST
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_FEW = 3
_SHARE = 0.1
_ROUNDING = 1e-3


@dataclass(frozen=True, slots=True)
class Overlapped:
    """The first `places` of the `horizon` that a loss asks for are the input's last, and the model goes by them."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 6

    places: int
    horizon: int
    length: int
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        seed_all(0)
        losses = LossWatch(keep_dropout=False)
        with restored(trial), stilled(trial), losses:
            trial.train_step(first_batches(trial, 1)[0], 0)
        asked = [call for call in losses.calls if call.target.is_floating_point() and 2 <= call.target.ndim <= 3]
        if not asked:
            raise NotMeasured("no loss compares numbers at several places")
        seed_all(0)  # for the same batch again
        call = capture(trial)
        for loss, given, axis, places in _overlaps(call, asked):
            with exclusively_evaluating(iter(trial.models.values())):
                if _goes_by(call, given, loss.target, axis, places):
                    return cls(places, loss.target.shape[axis], given.shape[axis], loss.place)
        raise NotMeasured("no forecast is seen to begin before its input ends")


def _overlaps(call: CapturedCall, asked: list[LossCall]) -> Iterator[tuple[LossCall, Tensor, int, int]]:
    inputs = [tensor for _, tensor in leaves((call.args, call.kwargs)) if tensor.is_floating_point()]
    for loss in asked:
        for given in inputs:
            for axis in range(1, given.ndim):
                if places := _shared(given, loss.target, axis):
                    yield loss, given, axis, places


def _shared(given: Tensor, target: Tensor, axis: int) -> int:
    """How many places at the input's end are those at the target's beginning, bit for bit; 0 where they are all.

    The same series a few places later is what comes next at every place: the models of that are asked otherwise.
    """
    if given.ndim != target.ndim:
        return 0
    others = [dim for dim in range(given.ndim) if dim != axis]
    if any(given.shape[dim] != target.shape[dim] for dim in others):
        return 0
    length, horizon = given.shape[axis], target.shape[axis]
    most = length - FARTHEST - 1 if length == horizon else horizon - 1
    for places in range(min(length, most), max(_FEW, int(_SHARE * horizon)) - 1, -1):
        start = target.narrow(axis, 0, places)
        if torch.equal(given.narrow(axis, length - places, places), start.to(given.dtype)):
            return places if _varies(start, axis) else 0
    return 0


def _varies(series: Tensor, axis: int) -> bool:
    steps = series.diff(dim=axis)
    return bool((steps != 0).double().mean() > 0.5) and not bool((series == series[:1]).all())


def _goes_by(call: CapturedCall, given: Tensor, target: Tensor, axis: int, places: int) -> bool:
    """Whether answers change when the numbers that they are asked for, and those behind, are another sample's.

    Asked are the first ones, which a causal model of a shifted series gives without having seen any of these numbers.
    """
    unseen = min(places, given.shape[axis] - places)

    def exchange(tensor: Tensor) -> Tensor:
        if tensor is not given:
            return tensor
        changed = tensor.clone()
        end = changed.narrow(axis, changed.shape[axis] - places, places)
        end.copy_(end.roll(1, 0))
        return changed

    arguments: Any = map_tensors((call.args, call.kwargs), exchange)
    pairs = zip(call.replay(), call.replay(arguments))
    for before, after in pairs:
        if before.shape == after.shape == target.shape:
            moved = (before - after).narrow(axis, 0, unseen).abs().amax() if unseen else torch.zeros(())
            return bool(moved > _ROUNDING * before.abs().max())
    return False
