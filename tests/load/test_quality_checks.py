"""Judges of accuracy and of what people prefer: by intervals, against limits and the live model."""

from __future__ import annotations

import pytest

from mlcheck.core.outcome import Outcome
from mlcheck.load.checks import (
    frequent_queries_wrong,
    quality_below_limit,
    satisfaction_falls,
    side_by_side_unjudged,
    worse_than_live,
)
from mlcheck.load.limits import Limits, Quality
from mlcheck.load.quality import Labelled, LabelledRun
from mlcheck.load.satisfaction import Ratings
from mlcheck.load.sbs import Judgement, Judgements


@pytest.mark.parametrize(
    ("differences", "outcome"),
    [
        ([1.0, 0.0, 1.0, 2.0] * 20, Outcome.PASS),
        ([-1.0, 0.0, 0.9] * 20, Outcome.INCONCLUSIVE),
        ([-1.0, -2.0, 0.0] * 20, Outcome.FAIL),
    ],
)
def test_satisfaction(differences: list[float], outcome: Outcome) -> None:
    found = satisfaction_falls.check(Ratings(tuple(differences), 4.0, 4.0, 3), Limits())
    assert found.outcome is outcome
    assert found.figures[0].data["labels"] == ["better", "equal", "worse"]


def labelled(right: int, wrong: int, live_right: int = -1, frequency: float = 1.0, label: str = "x") -> list[Labelled]:
    rows = []
    for n in range(right + wrong):
        said = label if n < right else "other"
        live = None if live_right < 0 else label if n < live_right else "other"
        rows.append(Labelled(f"{label}{n}", f"{label}{n}{frequency}", label, said, live, "", frequency, None))
    return rows


@pytest.mark.parametrize(
    ("right", "wrong", "outcome"), [(990, 10, Outcome.PASS), (900, 100, Outcome.INCONCLUSIVE), (800, 200, Outcome.FAIL)]
)
def test_accuracy_is_judged_by_the_ends_of_its_interval(right: int, wrong: int, outcome: Outcome) -> None:
    found = quality_below_limit.check(
        LabelledRun(tuple(labelled(right, wrong))), Limits(quality=Quality(accuracy_min=0.9))
    )
    assert found.outcome is outcome


def test_a_class_that_is_never_found_fails_behind_a_good_average() -> None:
    rows = labelled(980, 0) + labelled(0, 20, label="rare")
    limits = Limits(quality=Quality(accuracy_min=0.9, class_recall_min=0.5))
    found = quality_below_limit.check(LabelledRun(tuple(rows)), limits)
    assert found.outcome is Outcome.FAIL
    assert "the recall of class 'rare' is 0.00%" in found.findings[0].message
    assert len(found.findings) == 1


def test_without_a_limit_quality_is_measured_and_not_passed() -> None:
    assert quality_below_limit.check(LabelledRun(tuple(labelled(9, 1))), Limits()).outcome is Outcome.INCONCLUSIVE


def test_frequent_queries() -> None:
    limits = Limits(quality=Quality(weighted_accuracy_min=0.8))
    once = LabelledRun(tuple(labelled(9, 1)))
    assert frequent_queries_wrong.check(once, limits).outcome is Outcome.SKIP
    good = labelled(300, 0, frequency=50.0) + labelled(50, 50)
    assert frequent_queries_wrong.check(LabelledRun(tuple(good)), limits).outcome is Outcome.PASS
    bad = labelled(0, 300, frequency=50.0) + labelled(900, 0)
    assert frequent_queries_wrong.check(LabelledRun(tuple(bad)), limits).outcome is Outcome.FAIL
    assert frequent_queries_wrong.check(LabelledRun(tuple(bad)), Limits()).outcome is Outcome.WARN
    assert frequent_queries_wrong.check(LabelledRun(tuple(good)), Limits()).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("right", "live", "n", "outcome"),
    [
        (950, 900, 1000, Outcome.PASS),
        (800, 900, 1000, Outcome.FAIL),
        (90, 90, 100, Outcome.INCONCLUSIVE),
        (10_000, 10_000, 10_000, Outcome.PASS),
    ],
)
def test_against_the_live_model(right: int, live: int, n: int, outcome: Outcome) -> None:
    found = worse_than_live.check(LabelledRun(tuple(labelled(right, n - right, live))), Limits())
    assert found.outcome is outcome


def test_without_live_answers_nothing_is_compared() -> None:
    assert worse_than_live.check(LabelledRun(tuple(labelled(9, 1))), Limits()).outcome is Outcome.SKIP


@pytest.mark.parametrize(
    ("wins", "losses", "outcome"), [(60, 40, Outcome.INCONCLUSIVE), (65, 35, Outcome.PASS), (35, 65, Outcome.FAIL)]
)
def test_side_by_side(wins: int, losses: int, outcome: Outcome) -> None:
    said = ["left" if (n % 2 == 0) == (n < wins) else "right" for n in range(wins + losses)]
    rows = tuple(Judgement(f"i{n}", "Ada", choice, n % 2 == 0) for n, choice in enumerate(said))
    found = side_by_side_unjudged.check(Judgements(rows, wins + losses), Limits())
    assert found.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE:
        assert "110 more wins and losses would show it" in found.reason
