"""The tails, intervals and tests of counts, against scipy and the published numbers."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from mlcheck.load.binomial import (
    at_least,
    at_most,
    judgements_needed,
    mcnemar,
    paired_difference,
    sign_test,
    sign_test_power,
    wilson,
)

SHARES = st.floats(min_value=1e-6, max_value=1 - 1e-6)


@given(n=st.integers(1, 3000), p=SHARES, data=st.data())
def test_both_tails_are_those_of_scipy(n: int, p: float, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    assert at_most(k, n, p) == pytest.approx(stats.binom.cdf(k, n, p), rel=1e-8, abs=1e-200)
    assert at_least(k, n, p) == pytest.approx(stats.binom.sf(k - 1, n, p), rel=1e-8, abs=1e-200)


@pytest.mark.parametrize(
    ("k", "n", "p", "expected"), [(-1, 5, 0.3, 0.0), (5, 5, 0.3, 1.0), (0, 5, 0.0, 1.0), (3, 5, 1.0, 0.0)]
)
def test_the_edges_of_the_range(k: int, n: int, p: float, expected: float) -> None:
    assert at_most(k, n, p) == expected


@given(n=st.integers(1, 2000), data=st.data())
def test_wilson_is_scipys(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    theirs = stats.binomtest(k, n).proportion_ci(method="wilson")
    value, low, high = wilson(k, n)
    assert value == k / n
    assert low == pytest.approx(theirs.low, abs=1e-12)
    assert high == pytest.approx(theirs.high, abs=1e-12)


def test_no_trials_have_no_rate() -> None:
    assert all(math.isnan(number) for number in wilson(0, 0))


@given(wins=st.integers(0, 400), losses=st.integers(0, 400))
def test_the_sign_test_is_scipys(wins: int, losses: int) -> None:
    theirs = stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert sign_test(wins, losses) == pytest.approx(theirs, abs=1e-12)
    assert mcnemar(wins, losses) == sign_test(wins, losses)


def test_known_p_values() -> None:
    assert sign_test(60, 40) == pytest.approx(0.0568879, abs=1e-6)
    assert mcnemar(10, 25) == pytest.approx(0.0167, abs=1e-4)


def test_the_paired_difference_is_that_of_bonett_and_price() -> None:
    """By hand: p12 = 44/102, p21 = 13/102."""
    found = paired_difference(43, 12, 100)
    up, down = 44 / 102, 13 / 102
    half = 1.959963984540054 * math.sqrt((up + down - (up - down) ** 2) / 102)
    assert found.value == pytest.approx(0.31)
    assert (found.low, found.high) == pytest.approx((up - down - half, up - down + half))


@pytest.mark.parametrize("rate", [0.55, 0.6, 0.65, 0.7, 0.9])
def test_the_judgements_planned_are_enough_and_not_more(rate: float) -> None:
    needed = judgements_needed(rate)
    assert sign_test_power(needed - 1, rate) < 0.8
    assert all(sign_test_power(n, rate) >= 0.8 for n in range(needed, needed + 100))


def test_the_power_is_that_of_every_outcome_added_up() -> None:
    n, rate = 60, 0.65
    significant = [k for k in range(n + 1) if k > n - k and stats.binomtest(k, n).pvalue <= 0.05]
    assert sign_test_power(n, rate) == pytest.approx(sum(stats.binom.pmf(k, n, rate) for k in significant), abs=1e-12)


@pytest.mark.parametrize("rate", [0.5, 0.5001])
def test_a_preference_too_small_for_people_is_refused(rate: float) -> None:
    with pytest.raises(ValueError):
        judgements_needed(rate)
