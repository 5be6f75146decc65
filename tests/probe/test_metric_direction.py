"""Which end of a metric the search keeps, and which way training moves it."""

from __future__ import annotations

import pytest
from probe_programs import says

from mlcheck.core.finding import Location
from mlcheck.core.metric_names import best
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import metric_direction_reversed, validation_worsens
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.measure.validation.searched import Searched


def searched(metric: str, smallest: bool) -> Searched:
    return Searched(metric, smallest, (metric,), Location())


def moved(metric: str, start: float, end: float, falls: bool = True, odd: float = 0.0) -> ShortRun:
    """Forty steps in which a metric of three validation batches moves; `odd` is added to the last batch's end."""
    losses = [1.0 - 0.01 * step if falls else 1.0 for step in range(40)]
    ends = (end, end, end + odd)
    return ShortRun(
        steps=40,
        losses=losses,
        backwards=40,
        before=[{metric: start} for _ in ends],
        after=[{metric: value} for value in ends],
    )


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("val_accuracy", "largest"),
        ("f1", "largest"),
        ("validation_loss", "smallest"),
        ("mAP error", ""),
        ("map_loss", ""),
        ("auc_gap", ""),
        ("skill", ""),
        ("macro", ""),
    ],
)
def test_what_a_name_says(name: str, wanted: str) -> None:
    assert best(name) == wanted


def test_a_search_that_keeps_the_wrong_end_by_name() -> None:
    verdict = metric_direction_reversed.check(searched("f1", smallest=True), None)
    says(verdict, Outcome.FAIL, "keeps the smallest `f1`: smaller_is_better is true")
    says(metric_direction_reversed.check(searched("val_loss", smallest=False), None), Outcome.FAIL, "the largest")
    says(metric_direction_reversed.check(searched("f1", smallest=False), None), Outcome.PASS, "as its name asks for")


def test_an_error_that_training_lowers_and_the_search_keeps_large() -> None:
    seen = searched("box_error", smallest=False)
    says(metric_direction_reversed.check(seen, moved("box_error", 0.3, 0.1)), Outcome.WARN, "falls from 0.3 to 0.1")
    for run in (moved("box_error", 0.3, 0.2), moved("box_error", 0.3, 0.1, falls=False), None):
        says(metric_direction_reversed.check(seen, run), Outcome.PASS, "nothing speaks against it")
    for name in ("entropy", "accuracy_error"):
        says(metric_direction_reversed.check(searched(name, False), moved(name, 0.3, 0.1)), Outcome.PASS)


def test_a_share_that_training_raises_and_the_search_keeps_small() -> None:
    seen = searched("ranking", smallest=True)
    says(metric_direction_reversed.check(seen, moved("ranking", 0.3, 0.9)), Outcome.WARN, "rises from 0.3 to 0.9")
    for run in (
        moved("ranking", 0.3, 0.5),
        moved("ranking", 0.3, 0.9, falls=False),
        moved("ranking", 0.3, 0.9, odd=-0.8),
        moved("ranking", 3.0, 9.0),
        moved("ranking", 0.9, 0.3),
        None,
    ):
        says(metric_direction_reversed.check(seen, run), Outcome.PASS, "nothing speaks against it")


def test_a_search_that_keeps_the_large_is_left_alone() -> None:
    says(metric_direction_reversed.check(searched("ranking", False), moved("ranking", 0.3, 0.9)), Outcome.PASS)


def test_a_metric_that_training_halves() -> None:
    run = moved("ranking", 0.8, 0.2)
    says(
        validation_worsens.check(run, searched("ranking", smallest=False), None, None),
        Outcome.WARN,
        "falls from 0.8 to 0.2",
    )
    assert validation_worsens.check(run, searched("ranking", smallest=True), None, None).outcome is Outcome.SKIP
    assert validation_worsens.check(run, None, None, None).outcome is Outcome.SKIP


@pytest.mark.parametrize("run", [moved("ranking", 0.95, 0.75), moved("ranking", 0.8, 0.2, odd=0.7)])
def test_a_metric_that_gives_way_a_little_or_not_everywhere(run: ShortRun) -> None:
    assert validation_worsens.check(run, searched("ranking", smallest=False), None, None).outcome is Outcome.SKIP


def test_two_players_owe_no_metric() -> None:
    run = moved("ranking", 0.8, 0.2)
    run.backwards = 80
    assert validation_worsens.check(run, searched("ranking", smallest=False), None, None).outcome is Outcome.SKIP


def test_a_loss_that_a_filling_queue_raises_in_training_and_validation_alike() -> None:
    rising = [1.2, *[3.0] * 39, *[2.1] * 80]  # of its first steps the mean is high, and its last are below that
    run = ShortRun(before=[{"loss": 1.18}], after=[{"loss": 2.0}], losses=rising, steps=120)
    assert validation_worsens.check(run, None, None, None).outcome is Outcome.PASS
    other = ShortRun(before=[{"loss": 0.4}], after=[{"loss": 2.0}], losses=rising, steps=120)
    says(validation_worsens.check(other, None, None, None), Outcome.WARN, "loss rises from 0.4 to 2")
