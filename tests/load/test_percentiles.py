"""Exact percentiles, their intervals, and the early-stopping rule of MLPerf LoadGen."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mlcheck.load.percentiles import (
    Decision,
    interval_ranks,
    percentile,
    percentile_interval,
    queries_needed,
    rule,
)

LATENCIES = st.lists(st.floats(0, 1e6, allow_nan=False), min_size=1, max_size=300)


@given(values=LATENCIES, p=st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 0.999]))
def test_a_percentile_is_numpys_inverted_cdf(values: list[float], p: float) -> None:
    assert percentile(np.sort(values), p) == np.quantile(values, p, method="inverted_cdf")


@pytest.mark.parametrize("n", [100, 1000, 5000])
@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
def test_round_sizes_are_numpys_too(n: int, p: float) -> None:
    values = np.arange(n, dtype=float)
    assert percentile(values, p) == np.quantile(values, p, method="inverted_cdf")


def test_nothing_has_no_percentile() -> None:
    assert math.isnan(percentile(np.empty(0), 0.5))


@pytest.mark.parametrize(("n", "p", "ranks"), [(1000, 0.99, (983, 997)), (10_000, 0.99, (9880, 9920))])
def test_ranks_of_the_interval(n: int, p: float, ranks: tuple[int, int]) -> None:
    assert interval_ranks(n, p) == ranks


@given(n=st.integers(1, 2000), p=st.sampled_from([0.5, 0.9, 0.99]))
def test_the_interval_is_the_tightest_with_no_more_than_its_share_in_each_tail(n: int, p: float) -> None:
    low, high = interval_ranks(n, p)
    below, above = stats.binom.cdf(low - 1, n, p), stats.binom.sf(high - 1, n, p)
    assert below <= 0.025 or low == 0
    assert above <= 0.025 or high == n + 1
    assert stats.binom.cdf(low, n, p) > 0.025
    assert stats.binom.sf(high - 2, n, p) > 0.025


@pytest.mark.parametrize(("p", "least"), [(0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)])
def test_an_upper_bound_needs_samples_enough(p: float, least: int) -> None:
    assert math.isnan(percentile_interval(np.arange(least - 1.0), p).high)
    assert not math.isnan(percentile_interval(np.arange(float(least)), p).high)


SHAPES = {
    "exponential": lambda random: random.exponential(size=1500),
    "lognormal": lambda random: random.lognormal(sigma=0.6, size=1500),
    "two humps": lambda random: random.normal(1, 0.1, 1500) + 5 * (random.random(1500) < 0.04),
}


@pytest.mark.parametrize("p", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_interval_covers_the_truth_as_often_as_it_says(shape: str, p: float) -> None:
    random = np.random.default_rng(7)
    truth = percentile(np.sort(np.concatenate([SHAPES[shape](random) for _ in range(200)])), p)
    found = [percentile_interval(np.sort(SHAPES[shape](random)), p) for _ in range(400)]
    assert 0.93 <= np.mean([one.low <= truth <= one.high for one in found]) <= 0.99


# The tables of MLPerf's rules and of LoadGen's early stopping, by target percentile and confidence.
NEEDED = {
    (0.5, 0.99): (7, 11, 14, 22, 35, 59, 128, 237),
    (0.9, 0.95): (29, 46, 61, 103, 167, 286, 627, 1172),
    (0.9, 0.99): (44, 64, 81, 127, 197, 325, 681, 1246),
    (0.99, 0.95): (299, 473, 628, 1049, 1693, 2902, 6323, 11799),
    (0.99, 0.99): (459, 662, 838, 1307, 2010, 3304, 6898, 12571),
    (0.999, 0.99): (4603, 6636, 8403, 13105, 20140, 33097, 69058, 125826),
}


@pytest.mark.parametrize(("p", "confidence"), NEEDED)
def test_queries_needed(p: float, confidence: float) -> None:
    found = tuple(queries_needed(over, p, confidence) for over in (0, 1, 2, 5, 10, 20, 50, 100))
    assert found == NEEDED[p, confidence]


@pytest.mark.parametrize(("n", "p", "discarded"), [(51_457, 0.99, 461), (623, 0.9, 44)])
def test_a_run_of_loadgen_discards_as_many(n: int, p: float, discarded: int) -> None:
    """What LoadGen 6.0.17 printed after runs of its own: `Would discard N highest latency queries`, one fewer than
    may exceed the limit."""
    assert rule(n, discarded + 1, p).decision is Decision.KEPT
    assert rule(n, discarded + 2, p).decision is Decision.OPEN


@given(n=st.integers(1, 5000), p=st.sampled_from([0.5, 0.9, 0.99, 0.999]), data=st.data())
def test_a_decision_is_the_binomial_test_of_scipy(n: int, p: float, data: st.DataObject) -> None:
    over = data.draw(st.integers(0, n))
    kept = stats.binom.cdf(over, n, 1 - p) <= 0.01
    broken = stats.binom.sf(over - 1, n, 1 - p) <= 0.01
    expected = Decision.KEPT if kept else Decision.BROKEN if broken else Decision.OPEN
    assert rule(n, over, p).decision is expected


@given(over=st.integers(0, 60), p=st.sampled_from([0.5, 0.9, 0.99]))
def test_an_open_decision_says_exactly_how_many_are_missing(over: int, p: float) -> None:
    needed = queries_needed(over, p)
    assert rule(needed, over, p).decision is Decision.KEPT
    earlier = rule(needed - 1, over, p)
    assert earlier.decision is not Decision.KEPT
    if earlier.decision is Decision.OPEN:
        assert earlier.needed == 1
