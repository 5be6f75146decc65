"""Programs that evaluate a whole split by themselves, and give the metrics of one batch for those of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

Rows = list[tuple[float, float, int]]


def evaluating(whole: Callable[[Rows], dict[str, float]], alike: bool = False) -> Trial:
    """`whole` makes metrics of the loss, the hits and the size of each batch."""
    model = mlp()
    trial = trial_of(model, classes(8), cross_entropy)
    held_out = classes(8)
    held_out = held_out[:1] * 3 if alike else [(x[: 32 - 5 * n], y[: 32 - 5 * n]) for n, (x, y) in enumerate(held_out)]

    def evaluate(batches: list[Any]) -> dict[str, float]:
        with torch.no_grad():
            return whole([_row(model(x), y) for x, y in batches])

    trial.evaluate_split, trial.evaluate_step = evaluate, lambda batch: evaluate([batch])
    trial.validation_batches = lambda: iter(held_out)
    return trial


def _row(scores: Tensor, labels: Tensor) -> tuple[float, float, int]:
    return float(F.cross_entropy(scores, labels)), float((scores.argmax(1) == labels).sum()), len(labels)


def of(row: tuple[float, float, int]) -> dict[str, float]:
    return {"val_loss": row[0], "val_accuracy": row[1] / row[2]}


def over_all(rows: Rows) -> dict[str, float]:
    size = sum(n for *_, n in rows)
    return {"val_loss": sum(loss * n for loss, _, n in rows) / size, "val_accuracy": sum(h for _, h, _ in rows) / size}


@pytest.mark.parametrize(("place", "which"), [(-1, "last"), (0, "first")])
def test_the_metrics_of_one_batch(place: int, which: str) -> None:
    verdict = ask("metric-wrong", evaluating(lambda rows: of(rows[place])))
    says(verdict, Outcome.WARN, f"of the {which} validation batch alone", "val_loss")


def test_a_loss_of_all_beside_a_share_of_the_last() -> None:
    verdict = ask("metric-wrong", evaluating(lambda rows: {**of(rows[-1]), "val_loss": over_all(rows)["val_loss"]}))
    says(verdict, Outcome.WARN, "val_accuracy is of the last validation batch alone")


@pytest.mark.parametrize(
    "whole",
    [over_all, lambda rows: {"worst_loss": max(loss for loss, *_ in rows), "samples": sum(n for *_, n in rows)}],
)
def test_the_metrics_of_all(whole: Any) -> None:
    assert ask("metric-wrong", evaluating(whole)).outcome is not Outcome.WARN


def test_batches_that_are_alike_tell_nothing() -> None:
    assert ask("metric-wrong", evaluating(lambda rows: of(rows[-1]), alike=True)).outcome is not Outcome.WARN
