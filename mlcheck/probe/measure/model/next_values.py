"""Models that predict the next numbers of a series at every place: whether an output depends on numbers behind it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import exclusively_evaluating, first_batches
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.model_calls import CapturedCall, capture
from mlcheck.probe.measure.modules import Arguments
from mlcheck.probe.measure.tree import beside, leaves, map_tensors
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

ROUNDING = 1e-3
_FEW_PLACES = 6
_MOST_COLUMNS = 64
FARTHEST = 4


@dataclass(frozen=True, slots=True)
class Series:
    """A column of an input whose numbers, `ahead` places later, are a target: `axis` is that of time in the input."""

    name: str
    tensor: Tensor
    axis: int
    column: int
    ahead: int

    @property
    def length(self) -> int:
        return self.tensor.shape[self.axis]


@dataclass(frozen=True, slots=True)
class NextValues:
    """`leaks` are places, of `tried`, whose output changed when only later numbers of the series were exchanged."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 7

    series: str
    ahead: int
    tried: int
    leaks: int
    model: str
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        seed_all(0)
        with restored(trial):
            targets = _targets(trial)
        seed_all(0)  # for the same batch again
        call = capture(trial)
        found = next((s for s in (_series(call, target) for target in targets) if s is not None), None)
        if found is None:
            raise NotMeasured("no target holds the numbers of an input, some places later")
        length = found.length
        cuts = sorted({1, length // 4, length // 2, length - 2})
        with exclusively_evaluating(iter(trial.models.values())):
            before = [output for output in call.replay() if _time_axis(output, call.rows, length) is not None]
            if not before:
                raise NotMeasured("the model says nothing for every place of the series")
            leaks = sum(_leaks(call, before, found, cut) for cut in cuts)
        return cls(found.name, found.ahead, len(cuts), leaks, call.name, Location(symbol=call.name))


def _targets(trial: Trial) -> list[Tensor]:
    """Tensors of numbers in the first batch, and what the losses of its step are given to compare with."""
    batch = first_batches(trial, 1)[0]
    losses = LossWatch(keep_dropout=False)
    with losses:
        trial.train_step(batch, 0)
    targets = [tensor for _, tensor in leaves(batch)] + [call.target for call in losses.calls]
    return [target for target in targets if target.is_floating_point() and target.ndim >= 2]


def _series(call: CapturedCall, target: Tensor) -> Series | None:
    for name, tensor in leaves({"args": call.args, "kwargs": call.kwargs}):
        if not tensor.is_floating_point() or not 2 <= tensor.ndim <= 3:
            continue
        for axis in range(1, tensor.ndim):
            if (found := _ahead(tensor, target, axis)) is not None:
                return Series(name, tensor, axis, *found)
    return None


def _ahead(tensor: Tensor, target: Tensor, axis: int) -> tuple[int, int] | None:
    """A column of the input that a column of the target runs ahead of, bit for bit, and by how many places."""
    given, wanted = _columns(tensor, axis), None
    for other in range(1, target.ndim):
        if target.ndim <= 3 and target.shape[other] == given.shape[1] and len(target) == len(given):
            wanted = _columns(beside(target, tensor), other)
            break
    if wanted is None or given.shape[1] < _FEW_PLACES or max(given.shape[2], wanted.shape[2]) > _MOST_COLUMNS:
        return None
    pairs = product(range(1, FARTHEST + 1), range(given.shape[2]), range(wanted.shape[2]))
    for ahead, column, answer in pairs:
        mine, theirs = given[:, ahead:, column], wanted[:, :-ahead, answer]
        if torch.equal(mine, theirs) and bool((mine[:, 1:] != mine[:, :-1]).double().mean() > 0.5):
            return column, ahead
    return None


def _columns(tensor: Tensor, axis: int) -> Tensor:
    """As (samples, places, columns)."""
    moved = tensor.detach().movedim(axis, 1)
    return moved.unsqueeze(2) if moved.ndim == 2 else moved


def _time_axis(output: Tensor, rows: int, length: int) -> int | None:
    """The one dimension of an output that has as many places as the series."""
    axes = [axis for axis in range(1, output.ndim) if output.shape[axis] == length]
    return axes[0] if len(axes) == 1 and output.shape[0] == rows and output.is_floating_point() else None


def _exchanged(call: CapturedCall, series: Series, cut: int) -> Arguments:
    """The same numbers up to `cut`, those of another sample behind it, in the one column."""

    def exchange(tensor: Tensor) -> Tensor:
        if tensor is not series.tensor:
            return tensor
        changed = tensor.clone()
        columns = _columns(changed, series.axis)
        columns[:, cut + 1 :, series.column] = columns[:, cut + 1 :, series.column].roll(1, 0)
        return changed

    arguments: Any = map_tensors({"args": call.args, "kwargs": call.kwargs}, exchange)
    return arguments["args"], arguments["kwargs"]


def _leaks(call: CapturedCall, before: list[Tensor], series: Series, cut: int) -> bool:
    """Whether every output changes up to `cut` by more than rounding: one that looks ahead may forecast nothing."""
    after = call.replay(_exchanged(call, series, cut))
    outputs = [output for output in after if _time_axis(output, call.rows, series.length) is not None]
    return len(outputs) == len(before) and all(
        _moved(one, other, call.rows, series.length, cut) for one, other in zip(before, outputs)
    )


def _moved(one: Tensor, other: Tensor, rows: int, length: int, cut: int) -> bool:
    axis = _time_axis(one, rows, length)
    if axis is None or one.shape != other.shape:
        return False
    here, there = (tensor.double().narrow(axis, 0, cut + 1) for tensor in (one, other))
    return float((here - there).abs().max()) > ROUNDING * (float(one.double().abs().max()) or 1.0)
