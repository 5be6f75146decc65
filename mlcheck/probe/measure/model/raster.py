"""Models that predict a picture pixel by pixel, in reading order: whether an output depends on its own pixel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import exclusively_evaluating, first_batches
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.model_calls import CapturedCall, capture
from mlcheck.probe.measure.modules import Arguments
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_ROUNDING = 1e-3
_SMALLEST = 4
_LOSSES = ("cross_entropy", "nll_loss", "binary_cross_entropy_with_logits")


@dataclass(frozen=True, slots=True)
class Raster:
    """A model whose target is the picture it is given, and whose outputs depend on nothing behind them.

    `own` are the pixels, of `tried`, whose output changed when they alone were exchanged.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 7

    tried: int
    own: int
    model: str
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        losses = LossWatch(keep_dropout=False)
        seed_all(0)
        with restored(trial), losses:
            trial.train_step(first_batches(trial, 1)[0], 0)
        seed_all(0)  # for the same batch again
        call = capture(trial)
        picture, place = _given_and_wanted(call, losses.calls)
        pixels, cuts = picture[0].numel(), _cuts(picture)
        with exclusively_evaluating(iter(trial.models.values())):
            before = _outputs(call.replay(), picture)
            if any(_moves(call, picture, before, slice(cut + 1, pixels), slice(0, cut + 1)) for cut in cuts):
                raise NotMeasured("an output depends on pixels behind its own: the picture is not predicted in order")
            if not any(_moves(call, picture, before, slice(0, cut), slice(cut, cut + 1)) for cut in cuts):
                raise NotMeasured("no output depends on the pixels before its own")
            own = sum(_moves(call, picture, before, slice(cut, cut + 1), slice(cut, cut + 1)) for cut in cuts)
        return cls(len(cuts), own, call.name, place)


def _given_and_wanted(call: CapturedCall, losses: list[LossCall]) -> tuple[Tensor, Location]:
    """The one picture that the model is given, and where a loss compares its output with that very picture."""
    given = [tensor for _, tensor in leaves((call.args, call.kwargs))]
    pictures = [t for t in given if t.ndim == 3 or (t.ndim == 4 and t.shape[1] == 1)]
    if len(pictures) == 1 and min(pictures[0].shape[-2:]) >= _SMALLEST:
        for loss in losses:
            if loss.kind in _LOSSES and loss.target.numel() == pictures[0].numel() and _alike(pictures[0], loss.target):
                return pictures[0], loss.place
    raise NotMeasured("no loss compares the model's output with the picture that the model is given")


def _cuts(picture: Tensor) -> tuple[int, ...]:
    """A pixel in each third that differs most from sample to sample: one at an edge may be the same in all."""
    spreads = picture.double().flatten(1).std(0)[1:-1]
    third = len(spreads) // 3
    return tuple(1 + start + int(spreads[start : start + third].argmax()) for start in (0, third, 2 * third))


def _alike(given: Tensor, wanted: Tensor) -> bool:
    """Whether one is the other, in other numbers: as levels, or as classes of them."""
    one, other = (torch.unique(tensor.detach().cpu(), return_inverse=True)[1].flatten() for tensor in (given, wanted))
    return bool(one.any()) and torch.equal(one, other)


def _outputs(found: list[Tensor], picture: Tensor) -> list[Tensor]:
    """As (samples, channels, pixels), of those that say something of every pixel."""
    size = picture.shape[-2:]
    fitting = [t for t in found if t.ndim == 4 and t.shape[-2:] == size and len(t) == len(picture)]
    if not fitting:
        raise NotMeasured("the model says nothing for every pixel")
    return [tensor.double().flatten(2) for tensor in fitting]


def _moves(call: CapturedCall, picture: Tensor, before: list[Tensor], exchanged: slice, here: slice) -> bool:
    """Whether outputs at some pixels change when others are exchanged for those of another sample."""
    after = _outputs(call.replay(_exchanged(call, picture, exchanged)), picture)
    return any(
        float((one[..., here] - other[..., here]).abs().max()) > _ROUNDING * (float(one.abs().max()) or 1.0)
        for one, other in zip(before, after)
    )


def _exchanged(call: CapturedCall, picture: Tensor, pixels: slice) -> Arguments:
    def exchange(tensor: Tensor) -> Tensor:
        if tensor is not picture:
            return tensor
        changed = tensor.clone().flatten(1)
        changed[:, pixels] = changed[:, pixels].roll(1, 0)
        return changed.reshape(tensor.shape)

    return map_tensors((call.args, call.kwargs), exchange)  # type: ignore[no-any-return]
