"""What is added to a loss and makes the model forget its input, and terms that it lives with."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(12, 6), nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 12))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x).chunk(2, dim=1)
        return self.decode(mean + torch.randn_like(mean) * (log_variance / 2).exp()), mean, log_variance


def variational(weight: float, summed: bool = True) -> Trial:
    draws = torch.Generator().manual_seed(0)
    basis = torch.randn(3, 12, generator=draws)
    batches = [torch.randn(32, 3, generator=draws) @ basis for _ in range(4)]

    def loss(model: nn.Module, x: Any) -> Tensor:
        said, mean, log_variance = model(x)
        divergence = 0.5 * (mean.pow(2) + log_variance.exp() - 1 - log_variance).sum(1).mean()
        return F.mse_loss(said, x, reduction="sum") / len(x) / (1 if summed else 500) + weight * divergence

    model = Variational()
    return trial_of(model, batches, loss, torch.optim.Adam(model.parameters(), lr=1e-2))


@pytest.mark.parametrize(("weight", "summed"), [(200.0, True), (1.0, False)])
def test_a_divergence_that_takes_the_input_away(weight: float, summed: bool) -> None:
    verdict = ask("penalty-outweighs-loss", variational(weight, summed))
    says(verdict, Outcome.WARN, "what is added to mse_loss makes the model forget its input", "posterior collapse")


@pytest.mark.parametrize("weight", [1.0, 4.0])
def test_a_divergence_that_a_model_lives_with(weight: float) -> None:
    says(ask("penalty-outweighs-loss", variational(weight)), Outcome.PASS, "depends on the data")
