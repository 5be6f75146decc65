"""Variational autoencoders with and without a divergence, and others that draw with a spread."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome

Term = Callable[[Tensor, Tensor], Tensor | float]


class Coder(nn.Module):
    """Mean and spread are halves of one layer's output; `by_hand` says how the latent is drawn."""

    def __init__(self, term: Term, by_hand: bool, outputs: int = 12) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, outputs))
        self.term, self.by_hand = term, by_hand

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor | float]:
        mean, logarithm = self.encoder(x).chunk(2, -1)
        deviation = (0.5 * logarithm.clamp(-8, 8)).exp()
        drawn = mean + torch.randn_like(mean) * deviation if self.by_hand else Normal(mean, deviation).rsample()
        return self.decoder(drawn), self.term(mean, logarithm)


class Noisy(nn.Module):
    """A spread that is the same for all samples, as of layers that explore by noise."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(12, 12), nn.Linear(12, 12)
        self.spread = nn.Parameter(torch.full((12,), 0.1))

    def forward(self, x: Tensor) -> tuple[Tensor, float]:
        return self.last(self.first(x) + self.spread.exp() * torch.randn_like(x)), 0.0


class Uncertain(nn.Module):
    """As many answers as inputs, each with a spread of its own that only the draw around it knows."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(12, 16), nn.Linear(16, 24)

    def forward(self, x: Tensor) -> tuple[Tensor, float]:
        mean, logarithm = self.head(self.body(x).tanh()).chunk(2, -1)
        return mean + torch.randn_like(mean) * (0.5 * logarithm).exp(), 0.0


def written(mean: Tensor, logarithm: Tensor) -> Tensor:
    return -0.5 * (1 + logarithm - mean.pow(2) - logarithm.exp()).sum(1).mean()


def from_torch(mean: Tensor, logarithm: Tensor) -> Tensor:
    return kl_divergence(Normal(mean, (0.5 * logarithm).exp()), Normal(0.0, 1.0)).sum(1).mean()


def verdict(model: nn.Module) -> Verdict:
    x = torch.randn(64, 12, generator=torch.Generator().manual_seed(0))

    def loss(net: nn.Module, batch: Tensor) -> Tensor:
        rebuilt, term = net(batch)
        return F.mse_loss(rebuilt, batch[:, : rebuilt.shape[1]]) + term

    return ask("vae-formula-wrong", trial_of(model, list(x.split(16)), loss))


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize("term", [lambda *_: 0.0, lambda mean, _: 1e-3 * mean.pow(2).mean()])
def test_a_loss_without_divergence(term: Term, by_hand: bool) -> None:
    says(verdict(Coder(term, by_hand)), Outcome.WARN, "no divergence is in the loss", "by the draw alone")


@pytest.mark.parametrize("by_hand", [True, False])
@pytest.mark.parametrize("term", [written, from_torch, lambda mean, logarithm: 0.0 * written(mean, logarithm)])
def test_a_divergence_that_may_begin_at_zero(term: Term, by_hand: bool) -> None:
    says(verdict(Coder(term, by_hand)), Outcome.PASS, "in the loss beside what is drawn")


@pytest.mark.parametrize("model", [Noisy, Uncertain, lambda: Coder(lambda *_: 0.0, True, outputs=5)])
def test_noise_that_is_no_latent_of_an_autoencoder(model: Callable[[], nn.Module]) -> None:
    assert verdict(model()).outcome is Outcome.SKIP
