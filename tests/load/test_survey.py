"""What the passes over every query come to."""

from __future__ import annotations

import math

import numpy as np
from load_phases import samples

from mlcheck.load.survey import survey_of


def test_each_query_has_the_median_of_its_passes() -> None:
    taken = samples(np.array([1.0, 9.0, 3.0, 7.0, 5.0]))
    taken.query[:] = [0, 2, 0, 2, 0]
    answer = {"not_finite": {"2": "answer.x"}, "errors": []}
    found = survey_of(taken, ("a", "b", "c"), answer, {"load_s": 2.0, "first_ms": 40.0})
    assert found.median_ms[0] == 3.0
    assert math.isnan(found.median_ms[1])
    assert found.median_ms[2] == 8.0
    assert found.slowest_ms[2] == 9.0
    assert found.slowest == [2, 0]
    assert found.not_finite == {2: "answer.x"}
    assert (found.load_s, found.first_query_ms) == (2.0, 40.0)


def test_failed_queries_have_no_time_and_are_counted() -> None:
    taken = samples(np.array([1.0, 1.0, 4.0]), failed=2)
    taken.query[:] = [1, 1, 0]
    found = survey_of(taken, ("a", "b"), {}, {"load_s": 0.0, "first_ms": 0.0})
    assert found.failing == {1: 2}
    assert found.slowest == [0]


def test_the_worst_are_the_slowest_twentieth_at_least_one() -> None:
    taken = samples(np.arange(1.0, 61.0))
    taken.query[:] = np.arange(60)
    found = survey_of(taken, tuple(map(str, range(60))), {}, {"load_s": 0.0, "first_ms": 0.0})
    assert found.worst == [59, 58, 57]
