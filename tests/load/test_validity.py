"""What is told about how a load test was run."""

from dataclasses import replace

import pytest
from load_phases import closed, ladder, rung

from mlcheck.load.validity import validity


@pytest.mark.parametrize(("first_ms", "told"), [(2000.0, True), (40.0, False)])
def test_a_first_query_that_takes_much_longer_is_told(first_ms: float, told: bool) -> None:
    seen = replace(rung(closed(100.0)), starts=((0.1, first_ms),))
    cold = [line for line in validity(ladder(seen), 0) if line.startswith("COLD")]
    assert bool(cold) is told
    assert not told or "up to 2,000 ms, half of the later ones at most 10 ms" in cold[0]


def test_a_slow_service_has_no_cold_start() -> None:
    seen = replace(rung(closed(1.0)), starts=((0.1, 2000.0),))
    assert not any(line.startswith("COLD") for line in validity(ladder(seen), 0))


def test_noise_is_told_with_the_numbers_at_which_it_was() -> None:
    noisy = [rung(closed(100.0, workers=workers, waited=0.2), workers=workers) for workers in (1, 2)]
    told = [line for line in validity(replace(ladder(*noisy), remote=True), 0) if line.startswith("NOISY")]
    assert told == [
        "NOISY at 1, 2 connections: the workers waited 20% of the time for a core that should have been free"
    ]
