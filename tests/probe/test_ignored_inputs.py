"""Inputs that a model, or a part of it, never uses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Function, ask, classes, cross_entropy, fails, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


class Spiking(nn.Module):
    """Says nothing until what it was given has added up; `deaf` to what that was."""

    def __init__(self, deaf: bool) -> None:
        super().__init__()
        self.body, self.deaf = nn.Linear(8, 5), deaf
        self.charge: Tensor | float = 0.0

    def forward(self, x: Tensor) -> Tensor:
        self.charge = self.charge + 0.05 * self.body(0 * x if self.deaf else x)
        return self.charge.sigmoid() * (self.charge.abs() > 0.3)


@pytest.mark.parametrize("deaf", [False, True])
def test_a_model_that_adds_up_what_it_is_given_is_not_judged_by_one_call(deaf: bool) -> None:
    torch.manual_seed(0)
    model = Spiking(deaf)

    def spikes(net: nn.Module, batch: Any) -> Tensor:
        rate = torch.stack([net(batch[0]) for _ in range(40)]).mean(0)
        model.charge = 0.0
        return F.mse_loss(rate, F.one_hot(batch[1], 5).float())

    verdict = ask("input-ignored", trial_of(model, classes(8), spikes))
    says(verdict, Outcome.INCONCLUSIVE, "keeps something from call to call")


@pytest.mark.parametrize("calls", [1, 3])
def test_a_model_that_is_called_often_may_ignore_its_input(calls: int) -> None:
    model = Function(lambda layers, x: layers["net"](0 * x), net=mlp())
    often = trial_of(model, classes(8), lambda m, b: F.cross_entropy(sum(m(b[0]) for _ in range(calls)), b[1]))
    fails("input-ignored", often)


def test_an_input_that_is_multiplied_by_zero() -> None:
    model = Function(lambda layers, x: layers["net"](0 * x), net=mlp())
    trial = trial_of(model, classes(8), cross_entropy)
    fails("input-ignored", trial)
    verdict = fails("cannot-overfit-one-batch", trial)
    assert "no more than it does without its input" in verdict.summary


class OfDict(nn.Module):
    """Given all of a batch, of which it reads what it names."""

    def __init__(self, *read: str) -> None:
        super().__init__()
        self.read, self.head = read, nn.Linear(4 * len(read), 1)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        return self.head(torch.cat([batch[name] for name in self.read], 1))[:, 0]


def written_error(model: nn.Module, batch: Any) -> Tensor:
    return (model(batch) - batch["wanted"]).pow(2).mean()


def torchs_error(model: nn.Module, batch: Any) -> Tensor:
    return F.mse_loss(model(batch), batch["wanted"])


@pytest.mark.parametrize("loss", [written_error, torchs_error])
def test_a_target_in_the_batch_that_the_model_is_given_is_no_input(loss: Any) -> None:
    batches = [{"one": torch.randn(16, 4), "two": torch.randn(16, 4), "wanted": torch.randn(16)} for _ in range(4)]

    def shuffled(*read: str) -> Trial:
        trial = trial_of(OfDict(*read), batches, loss)
        trial.train_batches = lambda: (batches[place] for place in torch.randperm(4).tolist())
        return trial

    assert ask("input-ignored", shuffled("one", "two")).outcome is Outcome.PASS
    says(ask("input-ignored", shuffled("one")), Outcome.WARN, "ignores `batch.two`: exchanging it")
