"""Counts of successes: tails of the binomial distribution, intervals of a rate, tests of a coin."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

Z_95 = 1.959963984540054


class Interval(NamedTuple):
    """An estimate with the bounds of its confidence interval; a bound is NaN where the data give none."""

    value: float
    low: float
    high: float


def at_most(k: int, n: int, p: float) -> float:
    """P(X <= k) for X ~ Binomial(n, p)."""
    if k < 0:
        return 0.0
    if k >= n:
        return 1.0
    if p <= 0.0 or p >= 1.0:
        return 1.0 if p <= 0.0 else 0.0
    i = np.arange(1, k + 1, dtype=np.float64)
    steps = np.log(n - i + 1) - np.log(i) + math.log(p) - math.log1p(-p)
    logs = n * math.log1p(-p) + np.concatenate(([0.0], np.cumsum(steps)))
    peak = float(logs.max())
    return min(1.0, math.exp(peak) * float(np.exp(logs - peak).sum()))


def at_least(k: int, n: int, p: float) -> float:
    """P(X >= k) for X ~ Binomial(n, p), summed from its own tail."""
    return at_most(n - k, n, 1.0 - p)


def wilson(successes: float, n: float, z: float = Z_95) -> Interval:
    """The rate with Wilson's score interval (95 % by default). NaN for no trials.

    `n` may be an effective number of trials, as a weighted sample has.
    """
    if n <= 0:
        return Interval(math.nan, math.nan, math.nan)
    rate = successes / n
    middle = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    return Interval(rate, max(0.0, middle - half), min(1.0, middle + half))


def sign_test(wins: int, losses: int) -> float:
    """The exact two-sided p-value of a fair coin; ties are left out before."""
    return min(1.0, 2.0 * at_most(min(wins, losses), wins + losses, 0.5))


def mcnemar(only_first: int, only_second: int) -> float:
    """McNemar's exact p-value from the items that only one of two models got right."""
    return sign_test(only_first, only_second)


def paired_difference(gained: int, lost: int, n: int) -> Interval:
    """Accuracy of the new model less that of the old on the same `n` items, with a 95 % interval.

    Bonett and Price (2012): Wald's interval after one item is added to each discordant cell.
    """
    if n <= 0:
        return Interval(math.nan, math.nan, math.nan)
    up, down = (gained + 1) / (n + 2), (lost + 1) / (n + 2)
    half = Z_95 * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    return Interval((gained - lost) / n, max(-1.0, up - down - half), min(1.0, up - down + half))


def judgements_needed(win_rate: float, alpha: float = 0.05, power: float = 0.8, most: int = 100_000) -> int:
    """The judgements, ties apart, from which on the sign test finds a true `win_rate` with this power.

    From which on: the power of an exact test falls a little between two jumps, so the smallest number
    that reaches it once is not enough. Raises ValueError for a rate of a half, or one that needs more than `most`.
    """
    rate = max(win_rate, 1.0 - win_rate)
    if rate >= 1.0:
        rate = 1.0 - 1e-12
    if rate <= 0.5:
        raise ValueError("a win rate of a half cannot be told from a half")
    effect = rate - 0.5
    guess = math.ceil((1.96 + 0.85) ** 2 / 4 / effect**2)
    if guess > most:
        raise ValueError(f"more than {most:,} judgements")
    high = 2 * guess + 40
    enough = high
    for n in range(high, 0, -1):
        if sign_test_power(n, rate, alpha) < power:
            break
        enough = n
    return enough


def sign_test_power(n: int, win_rate: float, alpha: float = 0.05) -> float:
    """The chance that the two-sided sign test over `n` judgements is significant, and for the right side."""
    low, high = -1, n // 2
    while low < high:
        middle = (low + high + 1) // 2
        if 2.0 * at_most(middle, n, 0.5) <= alpha:
            low = middle
        else:
            high = middle - 1
    return at_most(low, n, 1.0 - win_rate)
