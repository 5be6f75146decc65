"""Targets that training has standardised, while validation data still has them in their own units."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mlcheck.probe.measure.data.passes import Pass
from mlcheck.probe.measure.tree import leaves

_FEW = 30
_NEAR = 0.05
_RATIO = 3.0
_OFF_CENTRE = 0.5


@dataclass(frozen=True, slots=True)
class RawTargets:
    """The mean and the standard deviation of the validation targets, where those of training are 0 and 1."""

    mean: float
    deviation: float


def raw_targets(name: str, training: Pass, validation: Pass) -> RawTargets | None:
    """None unless they spread otherwise and around another middle: a few extreme values alone move no middle so far."""
    trained, tested = (_numbers(split, name) for split in (training, validation))
    if trained is None or tested is None or min(len(trained), len(tested)) < _FEW:
        return None
    if abs(float(trained.mean())) > _NEAR or abs(float(trained.std()) - 1) > _NEAR:
        return None
    mean, deviation = float(tested.mean()), float(tested.std())
    other_scale = not 1 / _RATIO <= deviation <= _RATIO and deviation > 0
    return RawTargets(mean, deviation) if other_scale and abs(mean) > _OFF_CENTRE * deviation else None


def _numbers(split: Pass, name: str) -> Tensor | None:
    """One number a sample."""
    kept = [tensor for batch in split.kept if (tensor := dict(leaves(batch)).get(name)) is not None]
    if not kept or not all(one.is_floating_point() and one.ndim and one.numel() == len(one) for one in kept):
        return None
    numbers = torch.cat([one.detach().double().flatten() for one in kept])
    return numbers if bool(numbers.isfinite().all()) else None
