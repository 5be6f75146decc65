"""Values in the order of time: where warm-up ends, how sure a mean is, whether something grows."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from mlcheck.load.binomial import Z_95, Interval
from mlcheck.load.percentiles import percentile, rank

Floats = npt.NDArray[np.float64]

# Student's t, 97.5 %, for 19 degrees of freedom: twenty batches.
_T_19 = 2.093024054408263
_BATCHES = 20
_PLACES = 20_000


def warm_up_end(values: Floats, least: int = 10) -> int:
    """How many of the first values to cut: MSER-5 (White, 1997), at least `least`, at most half of all.

    The cut that leaves the mean of the rest with the smallest standard error, in steps of five values.
    """
    means = values[: len(values) // 5 * 5].reshape(-1, 5).mean(axis=1)
    m = len(means)
    if m < 4:
        return min(least, len(values) // 2)
    left = np.arange(m, 0, -1, dtype=np.float64)
    total = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum((means**2)[::-1])[::-1]
    error = (squares - total**2 / left) / left**2
    cut = int(np.argmin(np.maximum(error[: m // 2], 0.0))) * 5
    return min(max(cut, least), len(values) // 2)


def mean_interval(values: Floats) -> Interval:
    """The mean with a 95 % interval from twenty batch means, which need not be independent within.

    NaN bounds for fewer than forty values.
    """
    if not len(values):
        return Interval(math.nan, math.nan, math.nan)
    mean = float(values.mean())
    if len(values) < 2 * _BATCHES:
        return Interval(mean, math.nan, math.nan)
    size = len(values) // _BATCHES
    means = values[: size * _BATCHES].reshape(_BATCHES, size).mean(axis=1)
    half = _T_19 * float(means.std(ddof=1)) / math.sqrt(_BATCHES)
    return Interval(mean, mean - half, mean + half)


def block_intervals(values: Floats, shares: tuple[float, ...], seed: int = 0, draws: int = 400) -> list[Interval]:
    """Percentiles of a series with 95 % intervals from a bootstrap of twenty blocks of time.

    Latencies under a queue hang together: a stall makes many late at once. Blocks keep that together.
    NaN bounds for fewer than forty values.
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    if len(values) < 2 * _BATCHES:
        return [Interval(percentile(ordered, p), math.nan, math.nan) for p in shares]
    block = (np.arange(len(values)) * _BATCHES // len(values))[order]
    ends = _ends(len(values))
    bins = np.searchsorted(ends, np.arange(len(values)))
    up_to = np.cumsum(
        np.bincount(bins * _BATCHES + block, minlength=_BATCHES * len(ends)).reshape(-1, _BATCHES), axis=0
    )
    random = np.random.default_rng(seed)
    drawn = random.multinomial(_BATCHES, np.full(_BATCHES, 1 / _BATCHES), size=draws)
    found = np.empty((draws, len(shares)))
    for row, counts in enumerate(drawn):
        reached = up_to @ counts
        places = [int(np.searchsorted(reached, rank(int(reached[-1]), p))) for p in shares]
        found[row] = ordered[ends[places]]
    low, high = np.quantile(found, (0.025, 0.975), axis=0)
    return [Interval(percentile(ordered, p), float(low[i]), float(high[i])) for i, p in enumerate(shares)]


def _ends(n: int) -> npt.NDArray[np.int64]:
    """Places among `n` sorted values at which a percentile may lie: all, or of many values each of the highest and
    evenly many below."""
    if n <= _PLACES:
        return np.arange(n)
    even = np.linspace(0, n - 1, _PLACES // 2).astype(np.int64)
    return np.union1d(even, np.arange(n - _PLACES // 2, n))


class Trend(NamedTuple):
    """A slope with its 95 % interval. `steady` when each quarter lies above the one before."""

    slope: float
    low: float
    high: float
    steady: bool


def trend(x: Floats, y: Floats) -> Trend:
    """The median slope between all pairs (Theil, Sen), its interval by Kendall's variance.

    One jump, as when an allocator takes a new arena, is no steady growth. NaN for fewer than eight points.
    """
    n = len(x)
    first, second = np.triu_indices(n, 1)
    apart = x[second] != x[first]
    slopes = np.sort((y[second] - y[first])[apart] / (x[second] - x[first])[apart])
    if n < 8 or not len(slopes):
        return Trend(math.nan, math.nan, math.nan, steady=False)
    spread = Z_95 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = max(0, int((len(slopes) - spread) / 2))
    high = min(len(slopes) - 1, int((len(slopes) + spread) / 2) + 1)
    quarters = [float(np.median(part)) for part in np.array_split(y, 4)]
    steady = all(later > earlier for earlier, later in pairwise(quarters))
    return Trend(float(np.median(slopes)), float(slopes[low]), float(slopes[high]), steady)
