"""Targets that are standardised for training only: what matters is what the evaluation compares with them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, says, trial_of
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "splits-scaled-differently"
MEAN, DEVIATION = 150.0, 75.0


def prices(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, 8, generator=generator)
    y = x[:, :1] + 0.5 * x[:, 1:2] * x[:, 2:3] + 0.3 * torch.randn(rows, 1, generator=generator)
    return x, y


def priced(validation: Any, evaluate: Any) -> Trial:
    """Training targets have mean 0 and deviation 1; `validation` says what becomes of the others."""
    (x, y), (held_x, held_y) = prices(320, 0), prices(96, 1)
    mean, deviation = y.mean(), y.std()
    training, held_out = (y - mean) / deviation, validation((held_y - mean) / deviation)
    model = mlp(8, 1)

    def step(batch: Any) -> dict[str, float]:
        model.eval()
        with torch.no_grad():
            return {"error": float(evaluate(model(batch[0]), batch[1]))}

    def loss(net: nn.Module, batch: Any) -> Tensor:
        return F.mse_loss(net(batch[0]), batch[1])

    trial = trial_of(model, [], loss, evaluate=step)
    loaders = [DataLoader(TensorDataset(*data), 32) for data in ((x, training), (held_x, held_out))]
    trial.train_batches, trial.validation_batches = (lambda loader=loader: iter(loader) for loader in loaders)
    trial.loaders = dict(zip(("training", "validation"), loaders, strict=True))
    return trial


def raw(targets: Tensor) -> Tensor:
    return MEAN + DEVIATION * targets


def as_it_is(output: Tensor, target: Tensor) -> Tensor:
    return F.l1_loss(output, target)


@pytest.mark.parametrize("evaluate", [as_it_is, lambda output, target: (output - target).abs().mean()])
def test_raw_targets_compared_with_the_output_as_it_is(evaluate: Any) -> None:
    says(ask(RULE, priced(raw, evaluate)), Outcome.WARN, "standardised in training and not in validation, where")


SOUND: dict[str, Any] = {
    "both standardised": (lambda targets: targets, as_it_is),
    "the output converted back": (raw, lambda output, target: F.l1_loss(raw(output), target)),
    "the targets standardised there": (raw, lambda output, target: F.l1_loss(output, (target - MEAN) / DEVIATION)),
    "another level": (lambda targets: targets + 4, as_it_is),
    "some extreme values": (lambda targets: targets + 40 * (torch.arange(96) == 3)[:, None], as_it_is),
}


@pytest.mark.parametrize("name", SOUND)
def test_targets_that_are_compared_in_their_own_units(name: str) -> None:
    assert "targets" not in ask(RULE, priced(*SOUND[name])).summary
