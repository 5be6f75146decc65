"""What is reported of a phase's latencies: mean and percentiles, with intervals that allow for queueing."""

from __future__ import annotations

import math

import numpy as np

from mlcheck.load.binomial import Interval
from mlcheck.load.percentiles import Floats, percentile_interval
from mlcheck.load.series import block_intervals, mean_interval

SHARES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}


def estimates(values: Floats) -> dict[str, Interval]:
    """`mean_ms` and each of SHARES. Values come in the order of time; of two intervals the wider one is told."""
    ordered = np.sort(values)
    blocks = block_intervals(values, tuple(SHARES.values()))
    found = {"mean_ms": mean_interval(values)}
    for (measure, share), block in zip(SHARES.items(), blocks, strict=True):
        found[measure] = _wider(percentile_interval(ordered, share), block)
    return found


def _wider(one: Interval, other: Interval) -> Interval:
    """The wider of two intervals: independent samples, and blocks of time. NaN counts as unknown."""
    if math.isnan(other.low):
        return one
    low = one.low if math.isnan(one.low) else min(one.low, other.low)
    return Interval(one.value, low, one.high if math.isnan(one.high) else max(one.high, other.high))
