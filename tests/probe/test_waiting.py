"""Whether training waits for its data: judged by numbers, and measured where loading surely sleeps."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from probe_programs import classes, cross_entropy, mlp, trial_of

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks.loader_slower_than_step import check
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.waiting import Waiting

Times = tuple[float, float, float]


def seen(load: Times, step: Times, workers: int = 0, computing: float = 0.1) -> Waiting:
    return Waiting(load, step, 13, workers, computing, ((Location("data.py", 7, symbol="Set.__getitem__"), 0.9),))


def test_a_loader_that_is_clearly_slower_warns_with_the_line_and_the_gain() -> None:
    verdict = check(seen((0.28, 0.30, 0.31), (0.018, 0.020, 0.022)))
    assert verdict.outcome is Outcome.WARN
    (finding,) = verdict.findings
    assert "300 ms to load and 20 ms to train on, with no worker processes" in finding.message
    assert "up to 16 times as fast" in finding.message
    assert "90% of loading stands at this line and waits for something" in finding.message
    assert str(finding.location).startswith("data.py:7")
    assert "num_workers=4" in finding.help


def test_workers_that_cannot_keep_up_gain_less_and_are_told_otherwise() -> None:
    (finding,) = check(seen((0.09, 0.1, 0.11), (0.04, 0.04, 0.04), workers=2, computing=0.9)).findings
    assert "up to 2.5 times as fast" in finding.message
    assert "with 2 workers" in finding.message
    assert "computes" in finding.message
    assert "raise num_workers" in finding.help


@pytest.mark.parametrize(
    ("load", "step", "outcome"),
    [
        ((0.010, 0.012, 0.015), (0.001, 0.001, 0.001), Outcome.PASS),  # not worth a word
        ((0.030, 0.031, 0.032), (0.050, 0.051, 0.052), Outcome.PASS),
        ((0.060, 0.061, 0.062), (0.045, 0.046, 0.047), Outcome.PASS),  # slower, not twice
        ((0.030, 0.080, 0.200), (0.040, 0.060, 0.100), Outcome.INCONCLUSIVE),
        ((0.030, 0.300, 0.400), (0.010, 0.020, 0.120), Outcome.INCONCLUSIVE),  # too noisy
    ],
)
def test_what_is_fast_enough_or_too_noisy_does_not_warn(load: Times, step: Times, outcome: Outcome) -> None:
    verdict = check(seen(load, step))
    assert verdict.outcome is outcome
    assert not verdict.findings


def slow(batches: list[Any]) -> Iterator[Any]:
    for batch in batches:
        time.sleep(0.02)
        yield batch


def test_loading_is_timed_apart_from_stepping_and_its_line_is_found() -> None:
    trial = trial_of(mlp(), classes(8, batches=9), cross_entropy)
    batches = list(trial.train_batches())
    trial.train_batches = lambda: slow(batches)
    found = Waiting.measure(trial, 30.0)
    assert found.batches == 8
    assert found.load[0] >= 0.02
    place, share = found.spots[0]
    assert (place.symbol, place.path.endswith("test_waiting.py")) == ("slow", True)
    assert share > 0.5
    assert found.computing < 0.9


def test_a_few_batches_are_not_timed() -> None:
    with pytest.raises(NotMeasured, match="4 batches are too few"):
        Waiting.measure(trial_of(mlp(), classes(8, batches=4), cross_entropy), 30.0)
