"""Inputs whose whole range lies elsewhere in another split: the same numbers, times one number and plus another."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mlcheck.probe.measure.data.passes import Field, Pass
from mlcheck.probe.measure.tree import leaves

ATOM = 0.01
"""The share of numbers that are the least of all, as the background of pictures is, and no measured quantity."""
APART = 0.2
CLOSE = 0.15
MOST = 0.8
_MOST_NUMBERS = 2_000_000


@dataclass(frozen=True, slots=True)
class RangeShift:
    """Validation is `factor` times training, plus `offset`, by its least and its largest number."""

    factor: float
    offset: float


def range_shift(name: str, trained: Field, tested: Field, training: Pass, validation: Pass) -> RangeShift | None:
    """None where the ranges do not tell, or the numbers between them do not lie as the ranges do."""
    widths = trained.high - trained.low, tested.high - tested.low
    if not (min(widths) > 0 and max(widths) < float("inf")) or abs(trained.low - tested.low) <= APART * max(widths):
        return None
    factor = widths[1] / widths[0]
    shift = RangeShift(factor, tested.low - factor * trained.low)
    if not _fits(shift, trained, tested):
        return None
    atoms = (_share_of_least(training, name, trained.low), _share_of_least(validation, name, tested.low))
    return shift if min(atoms) >= ATOM else None


def _fits(shift: RangeShift, trained: Field, tested: Field) -> bool:
    """Whether nearly every feature that varies has the spread and the mean that the ranges foretell."""
    varies = trained.spread > trained.spread.max() / 4
    spreads, means = shift.factor * trained.spread[varies], shift.factor * trained.mean[varies] + shift.offset
    near = (tested.spread[varies] - spreads).abs() <= CLOSE * spreads
    near &= (tested.mean[varies] - means).abs() <= CLOSE * spreads
    return bool(near.numel()) and float(near.double().mean()) >= MOST


def _share_of_least(split: Pass, name: str, least: float) -> float:
    numbers = hits = 0
    for batch in split.kept:
        tensor: Tensor | None = dict(leaves(batch)).get(name)
        if tensor is None or numbers >= _MOST_NUMBERS:
            break
        numbers += tensor.numel()
        hits += int((tensor.double() == least).sum())
    return hits / numbers if numbers else 0.0
