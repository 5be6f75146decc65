"""Features that have mean 0 and deviation 1 over two splits taken together, and over neither alone."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from mlcheck.probe.measure.data.passes import Field, Passes

_EXACT = 1e-4
_OFF = 1e-3
_MOST = 0.9
_FEW = 30


@dataclass(frozen=True, slots=True)
class ScaledTogether:
    """Of `features` that vary `standard` are so over both; `off` is the largest mean that training alone has of them.

    `rows` are those of training and of validation.
    """

    place: str
    features: int
    standard: int
    off: float
    rows: tuple[int, int]


def scaled_together(name: str, passes: Passes) -> ScaledTogether | None:
    """None unless nearly all features are, to the rounding: by chance a mean is no such number."""
    if passes.validation is None or not (passes.training.whole and passes.validation.whole):
        return None
    one, other = passes.training.fields[name], passes.validation.fields.get(name)
    if other is None or not _comparable(one, other):
        return None
    rows = one.rows + other.rows
    mean = (one.rows * one.mean + other.rows * other.mean) / rows
    squares = (part.rows * (part.spread**2 + part.mean**2) for part in (one, other))
    spread = (sum(squares, torch.zeros(())) / rows - mean**2).clamp_min(0).sqrt()
    varies = spread > _EXACT
    deviations = (1.0, math.sqrt((rows - 1) / rows))  # over all rows, or over all but one
    near = varies & (mean.abs() < _EXACT)
    near &= sum((spread - deviation).abs() < _EXACT for deviation in deviations) > 0
    standard = near & (one.mean.abs() > _OFF)
    off = float(one.mean[standard].abs().max()) if standard.any() else 0.0
    found = ScaledTogether(one.place, int(varies.sum()), int(standard.sum()), off, (one.rows, other.rows))
    return found if standard.any() and found.standard >= _MOST * found.features else None


def _comparable(one: Field, other: Field) -> bool:
    alike = one.mean.shape == other.mean.shape and one.mean.numel() > 0
    return alike and "float" in one.dtype and "float" in other.dtype and min(one.rows, other.rows) >= _FEW
