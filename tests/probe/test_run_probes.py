"""Probes of a short training: one program with the fault each, and programs that only look like it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from loop_programs import loop
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def test_a_step_that_raises_later() -> None:
    def stop(index: int, _: Tensor) -> None:
        if index == 31:
            raise ValueError("Tried to step 32 times")

    verdict = ask("later-step-breaks", loop(before=stop))
    says(verdict, Outcome.FAIL, "training step 32 raises ValueError: Tried to step 32 times")
    assert verdict.findings[0].location.path.endswith("test_run_probes.py")
    assert "ValueError" in verdict.traceback
    says(ask("later-step-breaks", loop()), Outcome.PASS, "120 training steps")


def normed_on(samples: int, drop_last: bool = False) -> Trial:
    """Batches of eight, far more than a short run comes to."""
    x = torch.randn(samples, 8, generator=torch.Generator().manual_seed(1))
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    trial = trial_of(model, [], cross_entropy)
    loader = DataLoader(TensorDataset(x, x[:, :5].argmax(1)), batch_size=8, shuffle=True, drop_last=drop_last)
    trial.train_batches = lambda: iter(loader)
    trial.validation_batches = None
    trial.loaders = {"training": loader, "validation": None}
    return trial


@pytest.mark.parametrize("samples", [1001, 41])  # the short run does not come to it, or breaks on it
def test_a_last_batch_of_one_under_batch_norm(samples: int) -> None:
    verdict = ask("later-step-breaks", normed_on(samples))
    says(verdict, Outcome.FAIL, "the last batch of an epoch has 1 sample where others have 8", "raises ValueError")
    assert "more than 1 value per channel" in verdict.summary


@pytest.mark.parametrize(("samples", "drop_last"), [(1002, False), (1000, False), (1001, True)])
def test_a_last_batch_that_is_large_enough_or_left_out(samples: int, drop_last: bool) -> None:
    says(ask("later-step-breaks", normed_on(samples, drop_last)), Outcome.PASS, "120 training steps")


@pytest.mark.parametrize(("samples", "outcome"), [(1002, Outcome.PASS), (1001, Outcome.FAIL)])
def test_a_last_batch_with_a_number_for_each_pair(samples: int, outcome: Outcome) -> None:
    """A collate function that ranks samples in pairs gives a smaller square for a smaller batch."""
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))

    def ranked(batch: list[tuple[Tensor]]) -> tuple[Tensor, Tensor]:
        x = torch.stack([row for (row,) in batch])
        return x, (x[:, :1] > x[:, :1].T).float()

    def loss(net: nn.Module, batch: Any) -> Tensor:
        scores = net(batch[0])
        return F.binary_cross_entropy_with_logits(scores - scores.T, batch[1])

    trial = normed_on(samples)
    data = trial.loaders["training"].dataset
    loader: Any = DataLoader([(row,) for row, _ in data], batch_size=8, shuffle=True, collate_fn=ranked)
    ranking = trial_of(model, [], loss)
    ranking.train_batches, ranking.validation_batches = lambda: iter(loader), None
    ranking.loaders = {"training": loader, "validation": None}
    assert ask("later-step-breaks", ranking).outcome is outcome


def test_a_root_of_zero_in_the_gradient() -> None:
    class Distance(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = mlp()

        def forward(self, x: Tensor) -> Tensor:
            out = self.net(x)
            return out + 0.01 * (out - out.detach()).pow(2).sum(1, keepdim=True).sqrt()

    verdict = ask("non-finite-gradient", trial_of(Distance(), classes(8), cross_entropy))
    says(verdict, Outcome.FAIL, "the gradient of `net.0.weight` is not finite at training step 1", "SqrtBackward0")
    assert verdict.findings[0].location.symbol.endswith("forward")
    assert "1e-12" in verdict.findings[0].help


def test_a_loss_that_overflows_forward_names_the_module() -> None:
    class Growing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return (x * 1e4).exp()

    model = nn.Sequential(nn.Linear(8, 5), Growing())
    verdict = ask("non-finite-gradient", trial_of(model, classes(8), cross_entropy))
    says(verdict, Outcome.FAIL, "1 (Growing), in forward")


def test_finite_steps_pass() -> None:
    says(ask("non-finite-gradient", loop()), Outcome.PASS, "finite in all of 120 updates")


def test_a_running_sum_of_losses_keeps_every_graph() -> None:
    class Total:
        value: Any = 0.0

    total = Total()

    def add(_: int, loss: Tensor) -> None:
        total.value = total.value + loss

    trial = loop(before=add)
    trial.objects = (total,)
    verdict = ask("graph-kept-across-steps", trial)
    says(verdict, Outcome.FAIL, "graphs of 120 backward passes are still in memory", "`Total.value` holds them")


@pytest.mark.parametrize("keep", [1, 20])
def test_a_few_losses_kept_for_a_while_pass(keep: int) -> None:
    recent: list[Tensor] = []

    def remember(_: int, loss: Tensor) -> None:
        recent.append(loss)
        del recent[:-keep]

    says(ask("graph-kept-across-steps", loop(before=remember)), Outcome.PASS)


def test_losses_kept_as_numbers_pass() -> None:
    numbers: list[Tensor] = []
    says(ask("graph-kept-across-steps", loop(before=lambda _, loss: numbers.append(loss.detach()))), Outcome.PASS)


def test_a_mean_over_nothing_is_named_by_its_line() -> None:
    """What backward makes of an infinite loss is no cause of it."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        total = F.cross_entropy(model(batch[0]), batch[1], reduction="sum")
        return total / int((batch[1] == 77).sum())

    verdict = ask("non-finite-gradient", trial_of(mlp(), classes(8), loss))
    says(verdict, Outcome.FAIL, "the loss is not finite at training step 1")
    assert "Backward0" not in verdict.summary
