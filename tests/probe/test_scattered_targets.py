"""Targets of several places a sample that are drawn anew, and those that are shifted or read backwards on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

PLACES = 6
Change = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


def placed(change: Change, size: int = 8) -> Trial:
    """One score a class at each place; `change` is what happens to scores and labels before the loss."""
    draws = torch.Generator().manual_seed(2)
    batches = [(x, torch.randint(5, (size, PLACES), generator=draws)) for x, _ in classes(PLACES, 3, size=size)]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        scores, labels = change(model(batch[0]), batch[1])
        return F.cross_entropy(scores.flatten(0, 1), labels.flatten())

    return trial_of(nn.Linear(3, 5), batches, loss)


WRONG: dict[str, Change] = {
    "labels": lambda s, y: (s, y[:, torch.randperm(PLACES)]),
    "predictions": lambda s, y: (s[:, torch.randperm(PLACES)], y),
    "all of the batch": lambda s, y: (s, y.flatten()[torch.randperm(y.numel())].view_as(y)),
}
RIGHT: dict[str, Change] = {
    "as they are": lambda s, y: (s, y),
    "the next place's": lambda s, y: (s[:, :-1], y[:, 1:]),
    "backwards": lambda s, y: (s, y.flip(1)),
    "some places, drawn": lambda s, y: (s, torch.where(torch.rand(y.shape) < 0.5, y, -100)),
    "all of the batch together": lambda s, y: (s - s.mean((0, 1)), y),
    "with their neighbours": lambda s, y: (s + s.roll(1, 1), y.roll(-2, 1)),
    "both in another order": lambda s, y: (lambda p: (s[:, p], y[:, p]))(torch.randperm(PLACES)),
}


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize("size", [4, 16])
def test_targets_drawn_anew(name: str, size: int) -> None:
    says(ask("batch-mixing", placed(WRONG[name], size)), Outcome.FAIL, "compares predictions with other")


@pytest.mark.parametrize("name", RIGHT)
def test_targets_in_an_order_of_their_own(name: str) -> None:
    assert ask("batch-mixing", placed(RIGHT[name])).outcome is Outcome.PASS


RESHAPED: dict[str, Change] = {
    "classes first": lambda s, y: (s.permute(2, 0, 1).reshape(*y.shape, 5), y),
    "places first": lambda s, y: (s.permute(1, 2, 0).reshape(*y.shape, 5), y),
}


@pytest.mark.parametrize("name", RESHAPED)
def test_predictions_that_are_reshaped_where_a_dimension_had_to_move(name: str) -> None:
    says(ask("batch-mixing", placed(RESHAPED[name], 16)), Outcome.FAIL, "places of other samples change")
