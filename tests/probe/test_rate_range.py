"""The picture of the learning-rate range."""

from __future__ import annotations

import math

from mlcheck.core.finding import Figure
from mlcheck.probe.measure.training.rate_range import rate_range
from mlcheck.probe.measure.training.rate_trials import RateTrial, RateTrials


def picture(*runs: RateTrial) -> Figure:
    return rate_range(RateTrials(0.01, 6, runs, warms_up=False))


def test_each_rate_has_a_point_and_the_user_s_a_mark() -> None:
    down = (2.0, 1.8, 1.5, 1.2, 1.0, 0.8)
    flat, wild = (2.0,) * 6, RateTrial(100.0, (2.0, 1e9), diverged=True)
    data = picture(RateTrial(1.0, down, diverged=False), RateTrial(0.01, flat, diverged=False), wild).data
    (line,) = data["series"]
    assert line["x"][:2] == [0.0001, 0.01]
    assert line["y"] == [2.0, 0.9, None]
    assert [mark["name"] for mark in data["marks"]] == ["1 diverges", "yours, 0.01"]
    assert data["log_y"]


def test_a_rate_of_the_user_s_that_diverges_says_so() -> None:
    runs = RateTrial(1.0, (2.0, math.nan), diverged=True), RateTrial(0.1, (2.0, 1.0, 0.5), diverged=False)
    assert picture(*runs).data["marks"] == [{"name": "yours, 0.01 (diverges)", "x": 0.01}]
