"""The hand-over table: one line for each limit and decision, with the worst number of those alike."""

from __future__ import annotations

import math

import pytest

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, limit_rows
from mlcheck.core.outcome import Outcome
from mlcheck.load.binomial import Interval
from mlcheck.load.handover import Held, beside_its_limit, held_against_limits, reaches
from mlcheck.load.percentiles import Decision


def test_numbers_of_one_limit_and_decision_share_a_line_that_shows_the_worst() -> None:
    measured = {1: 10.0, 2: 30.0, 4: 20.0, 8: 90.0}
    (table,) = held_against_limits(
        Held("p99", "<= 50 ms", f"{ms:g} ms", Decision.KEPT if ms <= 50 else Decision.BROKEN, ms, workers)
        for workers, ms in measured.items()
    )
    assert limit_rows(table) == [
        ["p99", "<= 50 ms", "30 ms", "1 to 4", "kept"],
        ["p99", "<= 50 ms", "90 ms", "8", "BROKEN"],
    ]


def test_numbers_of_workers_with_a_gap_are_told_one_by_one() -> None:
    decisions = {1: Decision.KEPT, 2: Decision.OPEN, 4: Decision.KEPT, 8: Decision.KEPT}
    (table,) = held_against_limits(Held("p99", "", "", decision, 0, workers) for workers, decision in decisions.items())
    assert [row[3:] for row in limit_rows(table)] == [["1, 4, 8", "kept"], ["2", "undecided"]]


def test_without_a_limit_there_is_no_table() -> None:
    assert held_against_limits([]) == ()
    assert limit_rows(Figure("table", "another", {"columns": ["a"], "rows": [["b"]]})) == []
    assert limit_rows(Figure("curves", "c", {"series": []})) == []


@pytest.mark.parametrize(
    ("low", "high", "decision"),
    [
        (0.9, 0.95, Decision.KEPT),
        (0.85, 0.95, Decision.OPEN),
        (0.8, 0.89, Decision.BROKEN),
        (math.nan,) * 2 + (Decision.OPEN,),
    ],
)
def test_the_whole_interval_decides(low: float, high: float, decision: Decision) -> None:
    assert reaches(Interval(0.9, low, high), 0.9) is decision


@pytest.mark.parametrize(
    ("outcome", "word"), [(Outcome.PASS, "kept"), (Outcome.FAIL, "BROKEN"), (Outcome.INCONCLUSIVE, "undecided")]
)
def test_a_verdict_about_one_number_brings_its_line(outcome: Outcome, word: str) -> None:
    own = Figure("text", "own", {"text": "x"})
    found = beside_its_limit(Verdict(outcome, figures=(own,)), "errors", "none", "3 of 9")
    assert limit_rows(found.figures[0]) == [["errors", "none", "3 of 9", "", word]]
    assert found.figures[1] is own
