"""Samples that a training step mixes with others of their batch, and whether their labels are mixed with the same ones.

What the model gets of a sample is then a part of it and the rest of another, to the last digit; the loss is given the
two labels in the same parts, as one target or as two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

FEW, MOST = 8, 1024
_BATCHES = 3
_EXACT = 1e-8
_ROUNDING = 1e-4


@dataclass(frozen=True, slots=True)
class MixedPartners:
    """Of `rows` mixed samples whose partner's label is another than theirs, how many labels have `others` mixed in, and
    how many have the right one in the part of their own, `exchanged`.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 5

    rows: int
    others: int
    exchanged: int
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        for index, batch in enumerate(first_batches(trial, _BATCHES)):
            watch, modules = LossWatch(), ModuleWatch()
            with restored(trial), stilled(trial), watch, modules:
                seed_all(index)
                trial.train_step(copied(batch), index)
            given = [one for call in modules.calls for _, one in leaves((call.args, call.kwargs))]
            held = [leaf.detach().cpu() for _, leaf in leaves(batch)]
            for mix in (found for leaf in held for one in given if (found := _mix(leaf, one))):
                for leaf in held:
                    if told := _compared(leaf, mix, watch.calls):
                        return cls(*told)
        raise NotMeasured("no samples are mixed in the training step, or not their labels")


@dataclass(frozen=True, slots=True)
class _Mix:
    """Each sample's partner and the part that the partner has."""

    partner: Tensor
    part: Tensor


def _mix(samples: Tensor, given: Tensor) -> _Mix | None:
    """None where the model is given something else than each sample mixed with one other, or as it is."""
    if samples.shape != given.shape or samples.ndim < 2 or not FEW <= len(samples) <= MOST:
        return None
    x, m = (tensor.detach().cpu().double().flatten(1) for tensor in (samples, given))
    if x.shape[1] < FEW or not samples.is_floating_point() or not bool(x.isfinite().all() and m.isfinite().all()):
        return None
    moved = m - x
    along = moved @ x.T - (moved * x).sum(1, keepdim=True)
    apart = torch.cdist(x, x).pow(2).clamp_min(1e-30)
    part = along / apart
    lost = moved.pow(2).sum(1, keepdim=True) - along.pow(2) / apart
    least, partner = lost.min(1)
    part = part.gather(1, partner[:, None])[:, 0]
    still = moved.abs().amax(1) < _ROUNDING * x.abs().amax()
    mixed = (least < _EXACT * m.pow(2).sum(1)) & (part > 0) & (part < 1) & ~still
    if int(mixed.sum()) < FEW or not bool((mixed | still).all()):
        return None
    return _Mix(partner.where(mixed, torch.arange(len(x))), part.where(mixed, torch.zeros(())))


def _compared(labels: Tensor, mix: _Mix, calls: list[LossCall]) -> tuple[int, int, int, Location] | None:
    """What the calls are given of these labels; None where they are given something else."""
    if not labels.ndim or len(labels) != len(mix.partner):
        return None
    crosses = [call for call in calls if call.kind == "cross_entropy" and len(call.target) == len(labels)]
    if len(crosses) == 1 and crosses[0].target.is_floating_point() and crosses[0].target.ndim == 2:
        found = _of_shares(labels, mix, crosses[0].target.cpu().double())
    elif len(crosses) == 2 and torch.equal(crosses[0].input, crosses[1].input):
        found = _of_two(labels, mix, [call.target.cpu() for call in crosses])
    else:
        return None
    return (*found, crosses[-1].place) if found else None


def _of_shares(labels: Tensor, mix: _Mix, target: Tensor) -> tuple[int, int, int] | None:
    own = labels.double()
    if labels.ndim == 1 and not labels.is_floating_point() and 0 <= int(labels.min()) <= int(labels.max()):
        if int(labels.max()) >= target.shape[1]:
            return None
        own = F.one_hot(labels.long(), target.shape[1]).double()
    if own.shape != target.shape:
        return None
    part = mix.part[:, None]
    told = (own[mix.partner] != own).any(1)
    anyone = (1 - part[:, None]) * own[:, None] + part[:, None] * own[None]  # row, partner, class
    someone = ((anyone - target[:, None]).abs().amax(2) < _ROUNDING).any(1)
    right = _near((1 - part) * own + part * own[mix.partner], target)
    turned = _near(part * own + (1 - part) * own[mix.partner], target) & ~right
    if not bool((someone | turned)[told].all()) or int(told.sum()) < FEW:
        return None
    return int(told.sum()), int((told & someone & ~right & ~turned).sum()), int((told & turned).sum())


def _near(one: Tensor, other: Tensor) -> Tensor:
    return (one - other).abs().amax(1) < _ROUNDING


def _of_two(labels: Tensor, mix: _Mix, targets: list[Tensor]) -> tuple[int, int, int] | None:
    """One target is the labels, the other the same in another order."""
    mine = next((place for place, target in enumerate(targets) if _same(target, labels)), None)
    if mine is None or not _same(targets[1 - mine].sort().values, labels.sort().values):
        return None
    other, told = targets[1 - mine], labels[mix.partner] != labels
    if int(told.sum()) < FEW:
        return None
    return int(told.sum()), int((told & (other != labels[mix.partner])).sum()), 0


def _same(one: Any, other: Tensor) -> bool:
    return one.shape == other.shape and not other.is_floating_point() and bool((one == other).all())
