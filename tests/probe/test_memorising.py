"""What one batch, over and over, proves of a program whose recurrent layers are to remember for long."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import cannot_overfit_one_batch
from mlcheck.probe.measure.loss.floors import Floors
from mlcheck.probe.measure.training.memorising import Curve, Experiment
from mlcheck.probe.measure.training.overfit import Overfit
from mlcheck.trial.trial import Trial


class Echo(nn.Module):
    """A recurrent autoencoder: what one layer has read, another is to say again."""

    def __init__(self) -> None:
        super().__init__()
        self.read, self.say, self.head = (
            nn.LSTM(1, 4, batch_first=True),
            nn.LSTM(4, 4, batch_first=True),
            nn.Linear(4, 1),
        )

    def forward(self, x: Tensor) -> Tensor:
        kept = self.read(x)[1][0][0]
        answers: Tensor = self.head(self.say(kept[:, None].expand(-1, x.shape[1], -1))[0])
        return answers


def blind(level: float, walked: int) -> Overfit:
    """A program that stays at `level` where a constant prediction costs 1, and at 1 without its input."""
    flat, without = Curve("your optimizer", (level,) * 300, 1e-3), Curve("input zeroed", (1.0,) * 300, 1e-3)
    adam = (Curve("Adam 0.001", (level,) * 300, 1e-3), Curve("Adam 0.01", (level,) * 300, 1e-2))
    return Overfit(
        16, "mse_loss", Location(), Floors(1.0, 0.0), True, 1, flat, adam, without, weights=999, walked=walked
    )


@pytest.mark.parametrize(
    ("level", "walked", "outcome"),
    [(1.0, 50, Outcome.INCONCLUSIVE), (1.0, 5, Outcome.FAIL), (1.0, 0, Outcome.FAIL), (0.7, 50, Outcome.FAIL)],
)
def test_what_is_to_be_remembered_for_long_is_learnt_late(level: float, walked: int, outcome: Outcome) -> None:
    told = "keep over 50 steps" if outcome is Outcome.INCONCLUSIVE else "cannot be overfitted"
    says(cannot_overfit_one_batch.check(blind(level, walked)), outcome, told)


def test_the_steps_that_a_recurrent_layer_takes_are_counted() -> None:
    batches = [torch.rand(8, 30, 1, generator=torch.Generator().manual_seed(0))]
    trial = trial_of(Echo(), batches, lambda model, x: F.mse_loss(model(x), x))
    assert Experiment(trial, 5.0).walked == 30


def hazards(*, masked: bool) -> Trial:
    """An event in one of six intervals a sample, later ones of which nothing is known: left out of the loss, or not."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 6))
    last = torch.randint(1, 6, (32, 1))
    inputs, happened = torch.randn(32, 8), (torch.arange(6) == last).float()
    counts = (torch.arange(6) <= last - 1).float() + happened if masked else torch.ones(32, 6)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        scores = model(batch[0])
        each = F.binary_cross_entropy_with_logits(scores, batch[1], reduction="none")
        return (each * batch[2]).sum(dim=1).mean()

    return trial_of(model, [(inputs, happened, counts)] * 3, loss, torch.optim.Adam(model.parameters(), lr=1e-2))


def test_elements_that_a_mask_leaves_out_need_not_be_learnt() -> None:
    assert ask("cannot-overfit-one-batch", hazards(masked=True)).outcome is not Outcome.FAIL
    assert ask("cannot-overfit-one-batch", hazards(masked=False)).outcome is Outcome.PASS
    assert Experiment(hazards(masked=False), 5.0).whole
    assert not Experiment(hazards(masked=True), 5.0).whole
