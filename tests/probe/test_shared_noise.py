"""Noise that each sample draws for itself, and noise that one draw gives to all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Function, ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def coder(sample: Any) -> Trial:
    def forward(layers: Any, x: Tensor) -> Tensor:
        mean, deviation = layers["encode"](x).chunk(2, 1)
        return layers["decode"](sample(mean, deviation.exp()))

    model = Function(forward, encode=mlp(8, 8), decode=mlp(4, 8))
    return trial_of(model, classes(8), lambda model, batch: F.mse_loss(model(batch[0]), batch[0]))


SHARED: dict[str, Any] = {
    "no batch dimension": lambda mean, std: mean + torch.randn(4) * std,
    "of the first row": lambda mean, std: mean + std * torch.randn_like(mean[0]),
    "one row, repeated": lambda mean, std: torch.randn(1, 4).expand(len(mean), 4).mul(std).add(mean),
    "one number": lambda mean, std: mean + torch.randn(1) * std,
    "in one operation": lambda mean, std: torch.addcmul(mean, torch.randn(1, 4).repeat(len(mean), 1), std),
    "in place": lambda mean, std: mean + std.mul(torch.empty(4).normal_()),
}


@pytest.mark.parametrize("how", SHARED)
def test_one_draw_for_all_samples(how: str) -> None:
    verdict = ask("noise-shared-by-batch", coder(SHARED[how]))
    says(verdict, Outcome.WARN, "all 32 samples of a batch get the same noise", "with (32, 4)")


OWN: dict[str, Any] = {
    "like the deviation": lambda mean, std: mean + torch.randn_like(std) * std,
    "in shape": lambda mean, std: mean + std * torch.randn(*std.shape),
    "a distribution": lambda mean, std: torch.distributions.Normal(mean, std).rsample(),
    "in one operation": lambda mean, std: torch.addcmul(mean, torch.randn_like(std), std),
    "none yet": lambda mean, std: mean + 0.0 * torch.randn_like(mean),
    "a number each": lambda mean, std: mean + std * torch.randn(len(mean), 1),
    "several draws": lambda mean, std: (mean + std * torch.randn(3, *std.shape)).mean(0),
}


@pytest.mark.parametrize("how", OWN)
def test_a_draw_for_each_sample(how: str) -> None:
    says(ask("noise-shared-by-batch", coder(OWN[how])), Outcome.PASS)


class NoisyLayer(nn.Linear):
    """Its weights are drawn for each batch, of which there are as many rows as samples."""

    def forward(self, x: Tensor) -> Tensor:
        weight = self.weight * 1.0 + 0.1 * torch.randn(self.in_features)
        return F.linear(x, weight, self.bias)


def test_what_is_shared_on_purpose() -> None:
    noisy = nn.Sequential(NoisyLayer(8, 32), nn.ReLU(), nn.Linear(32, 5))
    assert ask("noise-shared-by-batch", trial_of(noisy, classes(8), cross_entropy)).outcome is not Outcome.WARN

    def tinted(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0] * (1 + 0.1 * torch.randn(3, 1, 1))), batch[1])

    pictures = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 5))
    assert ask("noise-shared-by-batch", trial_of(pictures, classes(3, 8, 8), tinted)).outcome is not Outcome.WARN

    def projected(model: nn.Module, batch: Any) -> Tensor:
        said = model(batch[0])
        return F.cross_entropy(said, batch[1]) + (said @ torch.randn(5, 3)).pow(2).mean()

    assert ask("noise-shared-by-batch", trial_of(mlp(), classes(8), projected)).outcome is not Outcome.WARN


def test_inputs_that_get_one_pattern() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0] + 0.1 * torch.randn(batch[0].shape[1:])), batch[1])

    says(ask("noise-shared-by-batch", trial_of(mlp(), classes(8), loss)), Outcome.WARN, "shape (8,)")


def diffusion(draw: Any) -> Trial:
    """The model is to tell the noise that was mixed with its input, each sample's in its own shares."""
    kept = torch.linspace(0.99, 0.01, 100)

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x = batch[0]
        a, noise = kept[torch.randint(100, (len(x),))][:, None], draw(x)
        return F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise), noise.expand_as(x))

    return trial_of(mlp(8, 8), classes(8), loss)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.randn(8).expand_as(x),
        lambda x: torch.randn_like(x[:1]),
        lambda x: torch.randn(1, 8).repeat(len(x), 1),
        lambda x: torch.randn(8).to(x) / 2,
    ],
)
def test_one_draw_in_shares_of_each_sample(draw: Any) -> None:
    says(ask("noise-shared-by-batch", diffusion(draw)), Outcome.WARN, "all 32 samples of a batch get the same noise")


def test_draws_in_shares_of_each_sample() -> None:
    says(ask("noise-shared-by-batch", diffusion(torch.randn_like)), Outcome.PASS)
    says(ask("noise-shared-by-batch", diffusion(lambda x: torch.randn(len(x), 1) + torch.randn_like(x))), Outcome.PASS)
    assert ask("noise-shared-by-batch", diffusion(lambda x: torch.ones(8))).outcome is not Outcome.WARN
