"""Views of a sample that are one, and programs in which a tensor is rightly there twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, trial_of, trial_on
from torch import Tensor, nn
from torch.utils.data import Dataset

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


class Views(Dataset[tuple[Tensor, Tensor]]):
    """Two noisy views of a row; `stranger` takes the second of another one."""

    def __init__(self, stranger: bool, noise: float) -> None:
        self.rows = torch.randn(320, 8, generator=torch.Generator().manual_seed(2))
        self.stranger, self.noise = stranger, noise

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        other = int(torch.randint(len(self.rows), ())) if self.stranger else index
        one, two = (self.rows[place] + self.noise * torch.randn(8) for place in (index, other))
        return one, two


def both_ways(model: nn.Module, batch: Any) -> Tensor:
    one, other = model(batch[0]), model(batch[1])
    return (contrast(one, other) + contrast(other, one)) / 2


@pytest.mark.parametrize("loss", [stacked, both_ways])
def test_views_of_two_samples(loss: Loss) -> None:
    verdict = ask("augmentation-destroys-label", trial_on(Views(stranger=True, noise=0.3), None, mlp(), loss))
    assert verdict.outcome is Outcome.WARN, verdict
    assert "the two views of a sample, `batch[0]` and `batch[1]`, have nothing in common" in verdict.summary
    assert "that of guessing" in verdict.summary
    sound = ask("augmentation-destroys-label", trial_on(Views(stranger=False, noise=0.3), None, mlp(), loss))
    assert sound.outcome is Outcome.SKIP, sound


def test_views_with_nothing_left_in_them() -> None:
    trial = trial_on(Views(stranger=False, noise=50.0), None, mlp(), stacked)
    assert ask("augmentation-destroys-label", trial).outcome is Outcome.WARN


def test_pairs_that_are_compared_need_nothing_in_common() -> None:
    """A ranking: the first of a pair is the better one."""

    def ranked(model: nn.Module, batch: Any) -> Tensor:
        return F.softplus(model(batch[1]).sum(1) - model(batch[0]).sum(1)).mean()

    trial = trial_on(Views(stranger=True, noise=0.3), None, mlp(), ranked)
    assert ask("augmentation-destroys-label", trial).outcome is Outcome.SKIP


@pytest.mark.parametrize("trial", [autoencoder, forced, perceptual])
def test_a_target_that_is_the_input_is_no_view(trial: Callable[[], Trial]) -> None:
    assert ask(RULE, trial()).outcome is Outcome.SKIP
