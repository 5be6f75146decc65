"""Encoders that what is rebuilt from their latent does not train, and latents that are cut on purpose."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "loss-term-without-gradient"
Latent = Callable[["Coder", Tensor], tuple[Tensor, Tensor]]


class Coder(nn.Module):
    """An encoder and a decoder, with a latent and a term of its own between them."""

    def __init__(self, latent: Latent) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 8))
        self.decoder = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 12))
        self.codes = nn.Embedding(32, 4)
        self.latent = latent

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z, term = self.latent(self, x)
        return self.decoder(z), term


def gaussian(coder: Coder, x: Tensor) -> Normal:
    mean, spread = coder.encoder(x).chunk(2, -1)
    return Normal(mean, F.softplus(spread) + 1e-3)


def divergence(q: Normal) -> Tensor:
    return kl_divergence(q, Normal(torch.zeros_like(q.loc), torch.ones_like(q.scale))).sum(-1).mean()


def quantised(coder: Coder, x: Tensor, straight: bool) -> tuple[Tensor, Tensor]:
    z = coder.encoder(x)[:, :4]
    q = coder.codes(torch.cdist(z, coder.codes.weight).argmin(1))
    term = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
    return z + (q - z).detach() if straight else q, term


def through_numpy(coder: Coder, x: Tensor) -> tuple[Tensor, Tensor]:
    q = gaussian(coder, x)
    return torch.from_numpy(q.loc.detach().numpy()), divergence(q)


CUT: dict[str, Latent] = {
    "drawn": lambda coder, x: ((q := gaussian(coder, x)).sample(), divergence(q)),
    "detached": lambda coder, x: ((q := gaussian(coder, x)).rsample().detach(), divergence(q)),
    "as an array": through_numpy,
    "the nearest code": lambda coder, x: quantised(coder, x, straight=False),
}
WHOLE: dict[str, Latent] = {
    "reparametrised": lambda coder, x: ((q := gaussian(coder, x)).rsample(), divergence(q)),
    "straight through": lambda coder, x: quantised(coder, x, straight=True),
}


def program(latent: Latent, by_hand: bool = False) -> Trial:
    x = torch.randn(64, 12, generator=torch.Generator().manual_seed(0))

    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        out, term = model(batch)
        return ((out - batch) ** 2).sum(1).mean() + term if by_hand else F.mse_loss(out, batch) + 0.1 * term

    return trial_of(Coder(latent), [x[:32], x[32:]], loss)


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.parametrize("name", CUT)
def test_a_latent_that_is_cut_off_from_its_encoder(name: str, by_hand: bool) -> None:
    says(ask(RULE, program(CUT[name], by_hand)), Outcome.WARN, "does not train `encoder.0 (Linear)`")


@pytest.mark.parametrize("name", WHOLE)
def test_a_latent_that_is_not(name: str) -> None:
    assert ask(RULE, program(WHOLE[name])).outcome is Outcome.PASS


def test_a_coarse_output_that_is_refined_without_its_graph() -> None:
    coarse, fine = (nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 12)) for _ in range(2))

    def loss(model: nn.Module, batch: tuple[Tensor, Tensor]) -> Tensor:
        first = coarse(batch[0])
        return F.mse_loss(first, batch[1]) + F.mse_loss(fine(first.detach()), batch[1])

    trial = trial_of(nn.ModuleList([coarse, fine]), [(torch.randn(32, 12), torch.randn(32, 12))] * 2, loss)
    assert ask(RULE, trial).outcome is Outcome.PASS
