"""Exact percentiles of raw samples, their intervals, and the rule that decides whether a limit is kept."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt

from mlcheck.load.binomial import Interval, at_least, at_most

Floats = npt.NDArray[np.float64]


def rank(n: int, p: float) -> int:
    """The place, from 1, of the `p` quantile among `n` sorted values: numpy's `inverted_cdf`."""
    return min(n, max(1, math.ceil(n * p - 1e-9)))


def percentile(ordered: Floats, p: float) -> float:
    """The smallest value that at least a share `p` of the samples does not exceed. NaN for none."""
    return float(ordered[rank(len(ordered), p) - 1]) if len(ordered) else math.nan


def percentile_interval(ordered: Floats, p: float, confidence: float = 0.95) -> Interval:
    """The percentile with an interval between two order statistics, whatever the distribution.

    Its coverage is at least `confidence` for independent samples. A bound that too few samples give is NaN.
    """
    n = len(ordered)
    lower, upper = interval_ranks(n, p, confidence)
    low = float(ordered[lower - 1]) if lower >= 1 else math.nan
    high = float(ordered[upper - 1]) if upper <= n else math.nan
    return Interval(percentile(ordered, p), low, high)


def interval_ranks(n: int, p: float, confidence: float = 0.95) -> tuple[int, int]:
    """Places, from 1, of the two bounds. 0 or n + 1 where a sample of this size has none."""
    tail = (1.0 - confidence) / 2
    lower = _last(0, n, lambda k: at_most(k - 1, n, p) <= tail)
    upper = n + 1 - _last(0, n, lambda k: at_least(n + 1 - k, n, p) <= tail)
    return lower, upper


def _last(low: int, high: int, holds: Callable[[int], bool]) -> int:
    """The largest number in the range for which `holds`, which turns false once and holds at `low`."""
    while low < high:
        middle = (low + high + 1) // 2
        if holds(middle):
            low = middle
        else:
            high = middle - 1
    return low


class Decision(StrEnum):
    """Whether a percentile keeps its limit."""

    KEPT = "kept"
    BROKEN = "broken"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class Ruling:
    """The decision, and for an open one how many further queries would settle it if all keep the limit."""

    decision: Decision
    n: int
    over: int
    needed: int = 0


def rule(n: int, over: int, p: float, confidence: float = 0.99) -> Ruling:
    """Decide from `over` of `n` samples above the limit whether the `p` quantile is below it.

    The early-stopping test of MLPerf LoadGen (margin 0): kept when so few above the limit would be
    improbable (1 - `confidence`) if a share of 1 - p or more were above; broken when so many would be
    improbable if it were 1 - p or less.
    """
    if n and at_most(over, n, 1.0 - p) <= 1.0 - confidence:
        return Ruling(Decision.KEPT, n, over)
    if over and at_least(over, n, 1.0 - p) <= 1.0 - confidence:
        return Ruling(Decision.BROKEN, n, over)
    return Ruling(Decision.OPEN, n, over, queries_needed(over, p, confidence) - n)


def queries_needed(over: int, p: float, confidence: float = 0.99) -> int:
    """The fewest samples that decide for the limit when `over` of them are above it."""
    low, high = over + 1, over + 2
    while at_most(over, high, 1.0 - p) > 1.0 - confidence:
        low, high = high, 2 * high
    while low < high:
        middle = (low + high) // 2
        if at_most(over, middle, 1.0 - p) <= 1.0 - confidence:
            high = middle
        else:
            low = middle + 1
    return low
