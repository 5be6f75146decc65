"""Scores that are cosines: multiplied by what they should be divided by, and as they should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Function, ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "output-cannot-reach-targets"
Scale = Callable[[Tensor], Tensor]


def unit(rows: Tensor) -> Tensor:
    return F.normalize(rows, dim=-1)


def pairs(scale: Scale, rows: int = 64, both: bool = True, length: Scale = unit) -> Trial:
    """Two towers whose pairs are to be told from all others of the batch."""
    model = Function(
        lambda layers, x: (layers["one"](x), layers["other"](x)), one=nn.Linear(8, 16), other=nn.Linear(8, 16)
    )

    def loss(model: nn.Module, batch: Any) -> Tensor:
        one, other = model(batch)
        scores, wanted = scale(length(one) @ length(other).T), torch.arange(len(batch))
        return F.cross_entropy(scores, wanted) + (F.cross_entropy(scores.T, wanted) if both else 0)

    return trial_of(model, list(torch.randn(4, rows, 8)), loss)


@pytest.mark.parametrize("both", [False, True])
def test_a_temperature_that_is_multiplied(both: bool) -> None:
    verdict = ask(RULE, pairs(lambda cosines: 0.07 * cosines, both=both))
    says(verdict, Outcome.FAIL, "cosines times 0.07", "cannot fall below 4.02, where a guess costs 4.16")
    says(ask(RULE, pairs(lambda cosines: cosines / 2)), Outcome.WARN, "cosines times 0.5")
    by_hand = pairs(lambda cosines: 0.1 * cosines, length=lambda rows: rows / rows.norm(dim=1, keepdim=True))
    says(ask(RULE, by_hand), Outcome.FAIL, "cosines times 0.1")


def classified(scale: float, classes: int) -> Trial:
    model = Function(lambda layers, x: scale * F.linear(unit(layers["body"](x)), unit(layers["centres"].weight)),
        body=nn.Linear(8, 16), centres=nn.Embedding(classes, 16))  # fmt: skip
    batches = [(torch.randn(32, 8), torch.randint(classes, (32,))) for _ in range(4)]
    return trial_of(model, batches, lambda model, batch: F.cross_entropy(model(batch[0]), batch[1]))


def test_centres_of_classes() -> None:
    says(ask(RULE, classified(0.2, 10)), Outcome.WARN, "with 10 classes")
    says(ask(RULE, classified(1.0, 5000)), Outcome.WARN, "with 5000 classes")
    for scale, classes in ((16.0, 10), (1.0, 10), (1.0, 100)):
        assert ask(RULE, classified(scale, classes)).outcome is Outcome.SKIP


def test_scores_that_may_grow() -> None:
    learnt = nn.Parameter(torch.tensor(0.07))
    for trial in (
        pairs(lambda cosines: cosines / 0.07),
        pairs(lambda cosines: cosines * learnt),
        pairs(lambda cosines: 0.07 * cosines, length=lambda rows: rows),
        pairs(lambda cosines: 0.07 * cosines.masked_fill(torch.eye(len(cosines), dtype=torch.bool), 0.0)),
        pairs(lambda cosines: 0.07 * cosines, rows=3),
    ):
        assert ask(RULE, trial).outcome is Outcome.SKIP
