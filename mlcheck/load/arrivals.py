"""When queries arrive, and which."""

from __future__ import annotations

import math

import numpy as np

from mlcheck.load.records import Integers

MOST = 300_000


def arrivals(
    rate: float, seconds: float, queries: int, seed: int, each_once: bool = False
) -> tuple[Integers, Integers]:
    """A Poisson process: nanoseconds from the beginning at which queries are due, and the number of each."""
    random = np.random.default_rng(seed)
    expected = rate * seconds
    gaps = random.exponential(1e9 / rate, size=int(expected + 6 * math.sqrt(expected) + 20))
    times = np.cumsum(gaps)
    offsets = times[times < seconds * 1e9].astype(np.int64)[:MOST]
    if each_once:
        rounds = -(-len(offsets) // queries) or 1
        numbers = np.concatenate([random.permutation(queries) for _ in range(rounds)])[: len(offsets)]
    else:
        numbers = random.integers(queries, size=len(offsets))
    return offsets, numbers.astype(np.int64)
