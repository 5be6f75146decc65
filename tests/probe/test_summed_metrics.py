"""Losses and counts that add up over the samples: summed where a mean is meant, or over all of a validation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, share, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


@pytest.mark.parametrize(
    ("training", "validation", "name", "outcome"),
    [
        ("mean", "sum", "val_loss", Outcome.WARN),
        ("mean", "sum", "mse_euro", Outcome.WARN),
        ("mean", "mean", "mse_euro", Outcome.PASS),
        ("mean", "sum", "valid.mae", Outcome.WARN),
        ("mean", "mean", "val_loss", Outcome.PASS),
        ("sum", "sum", "val_loss", Outcome.PASS),
        ("mean", "sum", "squares", Outcome.PASS),
    ],
)
def test_a_loss_that_is_summed_in_validation_alone(training: str, validation: str, name: str, outcome: Outcome) -> None:
    model = mlp(out=1)

    def squares(net: nn.Module, batch: Any, reduction: str = training) -> Tensor:
        return nn.functional.mse_loss(net(batch[0])[:, 0], batch[1].float(), reduction=reduction)

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {name: float(squares(model, batch, validation))}

    verdict = ask("metric-wrong", trial_of(model, classes(8), squares, evaluate=evaluate))
    assert verdict.outcome is outcome, verdict.summary
    assert outcome is Outcome.PASS or "depends on the batch size" in verdict.summary


@pytest.mark.parametrize(
    ("training", "name", "outcome"),
    [("mean", "squares", Outcome.WARN), ("mean", "squares_count", Outcome.PASS), ("sum", "squares", Outcome.PASS)],
)
def test_a_sum_that_the_search_goes_by(training: str, name: str, outcome: Outcome) -> None:
    model = mlp(out=1)

    def squares(net: nn.Module, batch: Any, reduction: str = training) -> Tensor:
        return nn.functional.mse_loss(net(batch[0])[:, 0], batch[1].float(), reduction=reduction)

    trial = trial_of(model, classes(8), squares, evaluate=lambda batch: {name: squares(model, batch, "sum").item()})
    trial.searched_metric = name
    assert ask("metric-wrong", trial).outcome is outcome


def reducing(metric: Callable[[Tensor, Tensor], float]) -> Trial:
    """An accuracy that a reducer makes of all samples of a validation, beside a loss a batch."""
    model, kept = mlp(), list[tuple[Tensor, Tensor]]()

    def evaluate(batch: Any) -> dict[str, float]:
        model.eval()
        with torch.no_grad():
            kept.append((model(batch[0]), batch[1]))
        return {"val_loss": float(F.cross_entropy(*kept[-1]))}

    def end() -> dict[str, float]:
        found = {"accuracy": metric(*map(torch.cat, zip(*kept, strict=True)))} if kept else {}
        kept.clear()
        return found

    trial = trial_of(model, classes(8, size=40), cross_entropy, evaluate=evaluate)
    trial.end_validation = end
    return trial


def test_what_a_reducer_makes_of_the_samples_is_recomputed() -> None:
    by_batch = reducing(lambda s, y: int((s.argmax(1) == y).sum()) / 64)
    says(ask("metric-wrong", by_batch), Outcome.WARN, "accuracy")
    others = reducing(lambda s, y: share(s.argmax(1), y.flip(0)))
    says(ask("metric-wrong", others), Outcome.WARN, "accuracy")
    sound = reducing(lambda s, y: share(s.argmax(1), y))
    says(ask("metric-wrong", sound), Outcome.PASS, "equal what was recomputed")


def test_a_reducer_that_needs_more_than_a_batch_is_left_out() -> None:
    says(ask("metric-wrong", reducing(lambda s, y: float("nan"))), Outcome.PASS, "val_loss")
