"""Contrastive losses that look for the other view of a sample, and for one of another sample."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

N = 16


def stacked(target: Any) -> Any:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        codes = F.normalize(model(torch.cat([batch[0], batch[1]])), dim=1)
        scores = (codes @ codes.T / 0.2).masked_fill(torch.eye(2 * N, dtype=torch.bool), -1e4)
        return F.cross_entropy(scores, target)

    return loss


def beside(order: Any) -> Any:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        mine, theirs = model(batch[0]), model(batch[1])
        return F.cross_entropy(mine @ theirs.T, order) + F.cross_entropy(theirs @ mine.T, order)

    return loss


def of_views(loss: Any, norm: bool = False) -> Trial:
    samples = [torch.randn(N, 8) for _ in range(2)]
    batches = [(x + 0.1 * torch.randn(N, 8), x + 0.1 * torch.randn(N, 8)) for x in samples]
    middle = nn.BatchNorm1d(32) if norm else nn.Identity()
    return trial_of(nn.Sequential(nn.Linear(8, 32), middle, nn.ReLU(), nn.Linear(32, 6)), batches, loss)


WRONG: dict[str, Any] = {
    "neighbours": stacked(torch.arange(2 * N) ^ 1),
    "the next": stacked(torch.arange(2 * N).roll(1)),
    "the other way round": beside(torch.arange(N).flip(0)),
}


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("how", WRONG)
def test_a_view_of_another_sample(how: str, norm: bool) -> None:
    verdict = ask("batch-mixing", of_views(WRONG[how], norm))
    says(verdict, Outcome.WARN, "takes views of other samples for the right ones")


RIGHT: dict[str, Any] = {
    "stacked": stacked(torch.arange(2 * N).roll(N)),
    "beside each other": beside(torch.arange(N)),
    "by class": lambda model, batch: F.cross_entropy(model(batch[0]) + model(batch[1]), torch.arange(N) % 6),
    "what comes next": lambda model, batch: F.cross_entropy(
        2 * model(batch[0])[:-1] @ model(batch[0]).T, torch.arange(1, N)
    ),
}


@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("how", RIGHT)
def test_a_view_of_its_own(how: str, norm: bool) -> None:
    assert ask("batch-mixing", of_views(RIGHT[how], norm)).outcome is not Outcome.WARN


def test_one_of_three_views_is_enough() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        codes = model(torch.cat([batch[0], batch[1], batch[0] * batch[1]]))
        return F.cross_entropy(codes @ codes.T - 1e4 * torch.eye(3 * N), torch.arange(3 * N).roll(N))

    assert ask("batch-mixing", of_views(loss)).outcome is not Outcome.WARN


def made_in_step(target: Any) -> Any:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        views = [batch[0] + 0.1 * torch.randn(N, 8) for _ in range(2)]
        return stacked(target)(model, views)

    return loss


def of_samples(loss: Any) -> Trial:
    batches = [(torch.randn(N, 8), torch.randint(3, (N,))) for _ in range(2)]
    return trial_of(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 6)), batches, loss)


@pytest.mark.parametrize("target", [torch.arange(2 * N) ^ 1, torch.arange(2 * N).roll(1)])
def test_views_that_the_step_makes_and_takes_for_those_of_another_sample(target: Tensor) -> None:
    verdict = ask("batch-mixing", of_samples(made_in_step(target)))
    says(verdict, Outcome.WARN, "takes views of other samples for the right ones", "is column 1")


def paired(order: Tensor, spread: float) -> Any:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        mine, theirs = (model(batch[0] + spread * torch.randn(N, 8)) for _ in range(2))
        return F.cross_entropy(mine @ theirs.T, order)

    return loss


def test_views_that_the_step_makes_in_two_calls() -> None:
    verdict = ask("batch-mixing", of_samples(paired(torch.arange(N).roll(1), 0.1)))
    says(verdict, Outcome.WARN, "takes views of other samples for the right ones")
    assert ask("batch-mixing", of_samples(paired(torch.arange(N), 0.1))).outcome is not Outcome.WARN


def test_views_that_the_step_makes_and_finds_again() -> None:
    assert ask("batch-mixing", of_samples(made_in_step(torch.arange(2 * N).roll(N)))).outcome is not Outcome.WARN


def test_samples_in_order_that_are_to_tell_the_next_are_no_views() -> None:
    assert ask("batch-mixing", of_samples(paired(torch.arange(N).roll(-1), 0.0))).outcome is not Outcome.WARN


def all_by_all(target: Tensor, own: float | None = None) -> Any:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        codes = F.normalize(model(torch.cat([batch[0], batch[1]])), dim=1)
        scores = codes @ codes.T / 0.2
        return F.cross_entropy(scores if own is None else scores.fill_diagonal_(own), target)

    return loss


def test_views_set_against_themselves() -> None:
    verdict = ask("batch-mixing", of_views(all_by_all(torch.arange(2 * N).roll(N))))
    says(verdict, Outcome.WARN, "compares each view with itself", "never its target")


@pytest.mark.parametrize("own", [-float("inf"), -1e9, 0.0])
def test_the_diagonal_is_masked(own: float) -> None:
    assert ask("batch-mixing", of_views(all_by_all(torch.arange(2 * N).roll(N), own))).outcome is not Outcome.WARN


def without_itself(model: nn.Module, batch: Any) -> Tensor:
    codes = F.normalize(model(torch.cat([batch[0], batch[1]])), dim=1)
    others = (codes @ codes.T / 0.2)[~torch.eye(2 * N, dtype=torch.bool)].view(2 * N, 2 * N - 1)
    partner = torch.cat([torch.arange(N) + N - 1, torch.arange(N)])
    return F.cross_entropy(others, partner)


def test_the_diagonal_is_left_out() -> None:
    assert ask("batch-mixing", of_views(without_itself)).outcome is not Outcome.WARN


def written(own: bool, apart: bool, reduced: str = "mean") -> Any:
    """InfoNCE without cross_entropy, what is wanted in the same table or computed beside it."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        a, b = (F.normalize(model(part), dim=1) for part in batch)
        z = torch.cat([a, b])
        table = z @ z.t() / 0.2
        wanted = (a * b).sum(1).repeat(2) / 0.2 if apart else table[torch.arange(2 * N), torch.arange(2 * N).roll(N)]
        kept = table if own else table.masked_fill(torch.eye(2 * N, dtype=torch.bool), -float("inf"))
        each = kept.exp().sum(1).log() - wanted
        return each.mean() if reduced == "mean" else each.sum()

    return loss


@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("reduced", ["mean", "sum"])
def test_views_set_against_themselves_in_a_loss_written_by_hand(apart: bool, reduced: str) -> None:
    verdict = ask("batch-mixing", of_views(written(True, apart, reduced)))
    says(verdict, Outcome.WARN, "compares each view with itself", "32 rows")


def uniform(model: nn.Module, batch: Any) -> Tensor:
    """Alignment, and how evenly the codes lie, all distances with those of 0."""
    a, b = (F.normalize(model(part), dim=1) for part in batch)
    return (a - b).pow(2).sum(1).mean() + (2 * (a @ a.T) - 2).exp().mean().log()


def discrepancy(model: nn.Module, batch: Any) -> Tensor:
    """The maximum mean discrepancy of two sets of codes."""
    a, b = (F.normalize(model(part), dim=1) for part in batch)
    return (a @ a.T).exp().mean() + (b @ b.T).exp().mean() - 2 * (a @ b.T).exp().mean()


def decorrelated(model: nn.Module, batch: Any) -> Tensor:
    a = model(batch[0]).repeat(1, 3)
    covariance = a.T @ a / N
    return (covariance - torch.eye(len(covariance))).pow(2).sum()


def determinant(model: nn.Module, batch: Any) -> Tensor:
    codes = model(batch[0])
    return -torch.logdet(codes @ codes.T + torch.eye(N)) + codes.pow(2).mean()


def attended(model: nn.Module, batch: Any) -> Tensor:
    codes = model(batch[0])
    return ((codes @ codes.T).softmax(1) @ codes - model(batch[1])).pow(2).mean()


@pytest.mark.parametrize(
    "loss", [written(False, True), written(False, False), uniform, discrepancy, decorrelated, determinant, attended]
)
def test_other_uses_of_all_similarities(loss: Any) -> None:
    assert ask("batch-mixing", of_views(loss)).outcome is not Outcome.WARN
