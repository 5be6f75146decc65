"""Losses that compare every row with every other, by mistake and on purpose."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, regression, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_column_against_a_row() -> None:
    verdict = ask("regression-broadcast", regression(torch.randn(32)))
    says(verdict, Outcome.FAIL, "predictions (32, 1) and targets (32,)", "32 × 32 differences")
    says(ask("regression-broadcast", regression(torch.randn(32, 1))), Outcome.PASS)


Written = Callable[[Tensor, Tensor], Tensor]


WRITTEN: list[Written] = [
    lambda said, given: (said - given).pow(2).mean(),
    lambda said, given: ((said > 0) == (given > 0)).float().mean() + said.mean(),
    lambda said, given: (F.mse_loss(said, given.view_as(said), reduction="none") * given.abs()).mean(),
]


MEANT: list[Written] = [
    lambda said, given: (said.squeeze(1) - given).pow(2).mean(),
    lambda said, given: (said.squeeze(1)[:, None] - given).abs().min(1).values.mean(),
    lambda said, given: (said - given[:, None]).pow(2).mean() + ((given[:, None] - given).abs() * said).mean(),
    lambda said, given: (said - said.T).pow(2).mean(),
    lambda said, given: (said - given[None]).abs().mean() - 0.5 * (said - said.T).abs().mean(),
    lambda said, given: (said - given[None]).pow(2).min(1).values.mean(),
    lambda said, given: (said - given[None]).pow(2).mean(1).topk(3).values.mean(),
    lambda said, given: (-(said - given[None]).pow(2)).exp().mean().neg(),
    lambda said, given: (said.mean() - given.mean()).pow(2) + torch.maximum(said.sum(), given.sum()) - given.sum(),
]


@pytest.mark.parametrize("written", WRITTEN)
def test_all_pairs_in_a_loss_written_by_hand(written: Written) -> None:
    batches = [(torch.randn(16, 8), torch.randn(16))] * 2
    trial = trial_of(mlp(8, 1), batches, lambda model, batch: written(model(batch[0]), batch[1]))
    says(ask("regression-broadcast", trial), Outcome.WARN, "the loss compares every", "(16, 1)", "16 × 16 values")


def flat(said: Tensor) -> Tensor:
    return said.squeeze(1)


WRITTEN_OUT: list[Written] = [
    lambda said, given: (flat(said).unsqueeze(1) - given.unsqueeze(0)).pow(2).mean(),
    lambda said, given: (given[:, None] - flat(said)[None]).abs().sum() / len(given) ** 2,
    lambda said, given: (0.5 * (said - given.view(1, -1)) ** 2).mean().sqrt(),
]


@pytest.mark.parametrize("written", WRITTEN_OUT)
def test_all_pairs_that_are_written_out_for_their_mean(written: Written) -> None:
    batches = [(torch.randn(16, 8), torch.randn(16))] * 2
    trial = trial_of(mlp(8, 1), batches, lambda model, batch: written(model(batch[0]), batch[1]))
    says(ask("regression-broadcast", trial), Outcome.WARN, "the loss compares every", "16 × 16 values")


@pytest.mark.parametrize("written", MEANT)
def test_pairs_that_are_meant_and_none(written: Written) -> None:
    batches = [(torch.randn(16, 8), torch.randn(16))] * 2
    trial = trial_of(mlp(8, 1), batches, lambda model, batch: written(model(batch[0]), batch[1]))
    assert ask("regression-broadcast", trial).outcome in (Outcome.PASS, Outcome.SKIP)


class Critic(nn.Module):
    def __init__(self, flat: bool) -> None:
        super().__init__()
        self.net, self.flat = mlp(8, 1), flat

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(1) if self.flat else self.net(x)


def of_two_models(flat: bool, weighted: Callable[[Tensor, Tensor], Tensor]) -> Trial:
    """What one model says, (n,), is weighed by what another says of the same states."""
    models = nn.ModuleDict({"actor": mlp(8, 3), "critic": Critic(flat)})

    def loss(models: Any, state: Tensor) -> Tensor:
        choices = torch.distributions.Categorical(logits=models["actor"](state))
        value = models["critic"](state)
        reward = state.sum(1) if flat else state.sum(1).unsqueeze(1)
        return weighted(choices.log_prob(choices.sample()), (reward - value).detach()) + (reward - value).pow(2).mean()

    return trial_of(models, [torch.randn(16, 8)] * 2, loss)


def test_an_advantage_that_is_a_column_weighs_every_action() -> None:
    def weighted(log_prob: Tensor, advantage: Tensor) -> Tensor:
        return -(log_prob * advantage).mean()

    said = ("makes all pairs of what goes together", "`mul` of", "16 × 16 values")
    says(ask("regression-broadcast", of_two_models(False, weighted)), Outcome.WARN, *said)
    assert ask("regression-broadcast", of_two_models(True, weighted)).outcome is Outcome.PASS
    meant = of_two_models(False, lambda log_prob, advantage: (log_prob.unsqueeze(1) * advantage).mean())
    assert ask("regression-broadcast", meant).outcome is Outcome.PASS


def test_all_pairs_in_the_evaluation_alone() -> None:
    model = mlp(8, 1)
    batches = [(torch.randn(16, 8), torch.randn(16, 1))] * 2
    trial = trial_of(model, batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))
    trial.evaluate_step = lambda batch: {"mae": (model(batch[0]) - batch[1].flatten()).abs().mean().item()}
    says(ask("regression-broadcast", trial), Outcome.WARN, "the evaluation compares every prediction")


def test_a_mask_without_the_channel_of_the_picture() -> None:
    batches = [(torch.randn(4, 1, 6, 6), (torch.rand(4, 6, 6) > 0.5).float())] * 2

    def dice(model: nn.Module, batch: Any) -> Tensor:
        said = model(batch[0]).sigmoid()
        return 1 - 2 * (said * batch[1]).sum() / (said.sum() + batch[1].sum())

    verdict = ask("regression-broadcast", trial_of(nn.Conv2d(1, 1, 3, padding=1), batches, dice))
    says(verdict, Outcome.WARN, "`mul` of the model's (4, 1, 6, 6) and the batch's (4, 6, 6)")


def quantiles(compared: Written, count: int = 3) -> Trial:
    batches = [(torch.randn(16, 8), torch.randn(16))] * 2
    return trial_of(mlp(8, count), batches, lambda model, batch: compared(model(batch[0]), batch[1]).mean())


def test_a_target_with_one_dimension_too_many_meets_the_answers_of_all_samples() -> None:
    said = ("`sub` of the model's (16, 3) and the batch's (16, 1, 1)", "16 × 16 × 3 values")
    says(ask("regression-broadcast", quantiles(lambda q, y: (y[:, None, None] - q).abs())), Outcome.WARN, *said)
    sound: list[tuple[Written, int]] = [
        (lambda q, y: (y[:, None] - q).abs(), 3),
        (lambda q, y: (y[:, None, None] - q[:, None]).abs(), 3),
        (lambda q, y: (y[:, None, None] > 0) * torch.cdist(q, q), 3),
        (lambda q, y: (y[:, None, None] - q).abs(), 1),
    ]
    for compared, count in sound:
        assert ask("regression-broadcast", quantiles(compared, count)).outcome in (Outcome.PASS, Outcome.SKIP)
