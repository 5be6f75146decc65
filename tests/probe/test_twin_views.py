"""Views of a sample that are one, and programs in which a tensor is rightly there twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "views-identical"
Loss = Callable[[nn.Module, Any], Tensor]


def pairs(equal: bool) -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    views = [torch.randn(16, 8, generator=generator) for _ in range(6)]
    return [(one, one.clone() if equal else one + 0.1 * other) for one, other in zip(views[:3], views[3:])]


def contrast(one: Tensor, other: Tensor) -> Tensor:
    scores = F.normalize(one, dim=1) @ F.normalize(other, dim=1).T / 0.2
    return F.cross_entropy(scores, torch.arange(len(one)))


def stacked(model: nn.Module, batch: Any) -> Tensor:
    return contrast(*model(torch.cat([batch[0], batch[1]])).chunk(2))


def in_turn(model: nn.Module, batch: Any) -> Tensor:
    return contrast(model(batch[0]), model(batch[1]))


@pytest.mark.parametrize("loss", [stacked, in_turn])
def test_one_view_returned_twice(loss: Loss) -> None:
    verdict = ask(RULE, trial_of(mlp(), pairs(equal=True), loss))
    assert verdict.outcome is Outcome.WARN, verdict.reason or verdict.summary
    assert "`0` and `1` are equal in every number of 48 samples" in verdict.findings[0].message
    assert ask(RULE, trial_of(mlp(), pairs(equal=False), loss)).outcome is Outcome.PASS


def test_dropout_may_be_what_tells_them_apart() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.1), nn.Linear(16, 4))
    assert ask(RULE, trial_of(model, pairs(equal=True), stacked)).outcome is Outcome.INCONCLUSIVE


class Rebuilding(nn.Module):
    """A decoder that is given its target too, as teacher forcing does."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Linear(16, 8)

    def forward(self, x: Tensor, before: Tensor) -> Tensor:
        return self.net(torch.cat([x, before], dim=1))


def autoencoder() -> Trial:
    return trial_of(mlp(8, 8), pairs(equal=True), lambda model, batch: (model(batch[0]) - batch[1]).pow(2).mean())


def forced() -> Trial:
    return trial_of(Rebuilding(), pairs(equal=True), lambda model, batch: F.mse_loss(model(*batch), batch[1]))


def perceptual() -> Trial:
    """What was rebuilt and what was to be rebuilt are compared by another network."""
    eye = mlp().requires_grad_(False)
    return trial_of(mlp(8, 8), pairs(equal=True), lambda model, batch: F.mse_loss(eye(model(batch[0])), eye(batch[1])))


@pytest.mark.parametrize("trial", [autoencoder, forced, perceptual])
def test_a_target_that_is_the_input_is_no_view(trial: Callable[[], Trial]) -> None:
    assert ask(RULE, trial()).outcome is Outcome.SKIP
