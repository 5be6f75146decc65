"""Warm-up, means and trends of series in time."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from mlcheck.load import series
from mlcheck.load.series import block_intervals, mean_interval, trend, warm_up_end


def white_cut(values: np.ndarray) -> int:
    """MSER-5 as it is written down: of all truncations of batch means, the one of least standard error."""
    means = values[: len(values) // 5 * 5].reshape(-1, 5).mean(axis=1)
    errors = [means[cut:].var() / (len(means) - cut) for cut in range(len(means) // 2)]
    return int(np.argmin(errors)) * 5


@pytest.mark.parametrize("seed", range(20))
def test_the_cut_is_the_one_of_least_standard_error(seed: int) -> None:
    random = np.random.default_rng(seed)
    values = random.gamma(3, 1, 600) + 20 * np.exp(-np.arange(600) / 40)
    assert warm_up_end(values) == max(10, white_cut(values))


def test_a_slow_start_is_cut_and_a_steady_run_hardly() -> None:
    random = np.random.default_rng(3)
    steady = [warm_up_end(random.lognormal(0, 0.3, 2000)) for _ in range(60)]
    slow = [warm_up_end(random.lognormal(0, 0.3, 2000) + 30 * np.exp(-np.arange(2000) / 40)) for _ in range(60)]
    assert np.median(steady) <= 25
    assert 100 <= np.median(slow) <= 350


@pytest.mark.parametrize(("n", "cut"), [(0, 0), (1, 0), (12, 6), (25, 10)])
def test_a_short_series_keeps_half(n: int, cut: int) -> None:
    assert warm_up_end(np.ones(n)) == cut


def test_batch_means_cover_the_mean_of_a_series_that_hangs_together() -> None:
    """First-order autocorrelation of 0.7: an interval for independent samples would cover some 60 %."""
    random, hits = np.random.default_rng(1), 0
    for _ in range(400):
        noise, values = random.normal(size=4000), np.empty(4000)
        values[0] = noise[0]
        for i in range(1, 4000):
            values[i] = 0.7 * values[i - 1] + noise[i]
        found = mean_interval(values + 10)
        hits += found.low <= 10 <= found.high
    assert 0.92 <= hits / 400 <= 0.99


def test_too_few_values_have_a_mean_and_no_bounds() -> None:
    found = mean_interval(np.arange(39.0))
    assert found.value == 19
    assert math.isnan(found.low)
    assert math.isnan(mean_interval(np.empty(0)).value)


def test_blocks_widen_the_interval_of_latencies_that_come_late_together() -> None:
    random = np.random.default_rng(2)
    calm = random.exponential(size=4000)
    stalled = calm.copy()
    stalled[1000:1060] += 50
    (quiet,), (late,) = block_intervals(calm, (0.99,)), block_intervals(stalled, (0.99,))
    assert late.low < 10 < late.high
    assert quiet.high - quiet.low < 3


def test_many_values_have_the_same_block_intervals_as_all_places_would_give(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(4).lognormal(size=60_000)
    shares = (0.5, 0.9, 0.99, 0.999)
    few = block_intervals(values, shares, draws=50)
    monkeypatch.setattr(series, "_PLACES", 10**9)
    every = block_intervals(values, shares, draws=50)
    assert few[2:] == every[2:]
    for one, other in zip(few, every, strict=True):
        assert one == pytest.approx(other, rel=1e-3)


def test_block_intervals_name_the_percentile_itself() -> None:
    values = np.random.default_rng(0).permutation(1000).astype(float)
    found = block_intervals(values, (0.5, 0.9, 0.99))
    assert [one.value for one in found] == [np.quantile(values, p, method="inverted_cdf") for p in (0.5, 0.9, 0.99)]
    assert all(one.low <= one.value <= one.high for one in found)


@pytest.mark.parametrize("seed", range(10))
def test_the_slope_is_theil_and_sens(seed: int) -> None:
    random = np.random.default_rng(seed)
    x = np.sort(random.random(60))
    y = 3 * x + random.normal(0, 0.4, 60)
    theirs = stats.theilslopes(y, x)
    found = trend(x, y)
    assert found.slope == pytest.approx(theirs.slope)
    assert found.low == pytest.approx(theirs.low_slope, rel=0.05, abs=0.05)
    assert found.high == pytest.approx(theirs.high_slope, rel=0.05, abs=0.05)


def test_growth_is_steady_and_a_single_jump_is_not() -> None:
    x = np.arange(40.0)
    assert trend(x, 5 + 0.1 * x).steady
    assert not trend(x, np.where(x < 18, 5.0, 9.0)).steady
    assert not trend(x, np.full(40, 7.0)).steady
    assert math.isnan(trend(x[:5], x[:5]).slope)
