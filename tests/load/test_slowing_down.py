"""Whether a query takes the longer, the more came before it: judged on numbers written by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from load_phases import closed, ladder, phase, rung

from mlcheck.core.outcome import Outcome
from mlcheck.load.checks.answers_slow_down import check
from mlcheck.load.ladder import Ladder
from mlcheck.load.series import Floats

N = 600
RANDOM = np.random.default_rng(0)
NOISE = RANDOM.lognormal(0.0, 0.1, N)
FLAT = 10.0 * NOISE
RISING = np.linspace(5.0, 15.0, N) * NOISE
RISING_ON = np.linspace(15.0, 25.0, N) * NOISE
STEP = np.where(np.arange(N) > 400, 3 * FLAT, FLAT)
PAUSES = np.where(np.arange(N) % 50 == 0, np.arange(N), FLAT)
SIZES = RANDOM.choice([2.0, 20.0, 60.0], N)


def seen(back_to_back: Floats, at_a_rate: Floats, **given: float) -> Ladder:
    return ladder(rung(phase(back_to_back, kind="closed", **given), phase(at_a_rate, **given)))


def test_growth_in_both_phases_is_told_with_its_figures() -> None:
    found = check(seen(RISING, RISING_ON))
    assert found.outcome is Outcome.WARN
    assert found.looked_at == 2 * N
    (finding,) = found.findings
    assert finding.message.startswith("a query takes the longer, the more came before it: from 6.")
    assert "over 600 queries back to back, and from 16." in finding.message


def test_growth_shows_among_queries_of_any_size() -> None:
    assert check(seen(RISING * SIZES, RISING_ON * SIZES)).outcome is Outcome.WARN


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(FLAT, FLAT, id="steady"),
        pytest.param(FLAT, 3 * FLAT, id="a step between the phases"),
        pytest.param(RISING[::-1], FLAT, id="a slow start"),
        pytest.param(RISING[::-1], RISING_ON[::-1], id="memoised"),
        pytest.param(STEP, STEP, id="a step"),
        pytest.param(PAUSES, PAUSES, id="longer and longer pauses"),
        pytest.param(np.minimum(3 * RISING, 25 * NOISE), 25 * NOISE, id="a cache that has filled"),
        pytest.param(SIZES, RANDOM.permutation(SIZES), id="queries of different sizes"),
    ],
)
def test_what_is_no_steady_growth_passes(first: Floats, second: Floats) -> None:
    assert check(seen(first, second)).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(RISING / 1000, RISING_ON / 1000, id="microseconds"),
        pytest.param(np.linspace(10.0, 12.0, N), np.linspace(12.0, 13.5, N), id="a fifth, and an eighth"),
    ],
)
def test_slight_growth_wants_a_longer_measurement(first: Floats, second: Floats) -> None:
    found = check(seen(first, second))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.reason == "too little to be sure of: measure longer, with `--duration`"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(RISING, FLAT, id="a neighbour in the first phase"),
        pytest.param(FLAT, RISING, id="a neighbour in the second phase"),
    ],
)
def test_growth_in_one_phase_is_neither_told_nor_passed(first: Floats, second: Floats) -> None:
    found = check(seen(first, second))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.reason == "in one of two phases only: measure longer, with `--duration`"


def test_chance_alone_raises_no_alarm() -> None:
    draws = np.random.default_rng(1)
    times = [[draws.lognormal(1.0, 1.0, 120) for _ in range(2)] for _ in range(200)]
    found = [check(seen(first, second)).outcome for first, second in times]
    assert Outcome.WARN not in found
    assert found.count(Outcome.PASS) > 190


def test_a_noisy_machine_decides_nothing() -> None:
    found = check(seen(RISING, RISING_ON, foreign=0.3))
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.reason == "NOISY: other programs used 30% of the cores; measure on an idle machine"


def test_too_few_answers_or_phases_decide_nothing() -> None:
    assert check(seen(RISING[::20], RISING_ON)).outcome is Outcome.INCONCLUSIVE
    assert check(ladder(rung(closed(100.0)))).outcome is Outcome.INCONCLUSIVE


def test_users_wait_for_each_other() -> None:
    assert check(replace(seen(RISING, RISING_ON), users=True)).outcome is Outcome.SKIP
