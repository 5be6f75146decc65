"""Sound models that make or rebuild what they see, or learn without labels."""

from __future__ import annotations

from typing import Any

import torch
from data import digits, loaders, rings, split, table
from torch import Tensor, nn
from torch.nn import functional as F


def evaluated(model: nn.Module, loss: Any) -> Any:
    @torch.no_grad()
    def evaluate(batch: Any) -> dict[str, float]:
        model.eval()
        return {"loss": loss(batch).item()}

    return evaluate


def trained(model: nn.Module, loss: Any, sets: Any, rate: float = 2e-3) -> dict[str, Any]:
    """One model, a loss of the batch."""
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)

    def step(batch: Any) -> Tensor:
        model.train()
        optimizer.zero_grad()
        value = loss(batch)
        value.backward()
        optimizer.step()
        return value.detach()

    return {
        "model": model,
        "optimizer": optimizer,
        "train_step": step,
        "evaluate_step": evaluated(model, loss),
        **loaders(sets),
    }


def autoencoder() -> dict[str, Any]:
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 12),
        nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 64),
    )  # fmt: skip
    return trained(model, lambda batch: F.mse_loss(model(batch[0]), batch[0].flatten(1)), digits(labels=False))


def table_autoencoder() -> dict[str, Any]:
    model = nn.Sequential(nn.Linear(30, 16), nn.Tanh(), nn.Linear(16, 6), nn.Tanh(), nn.Linear(6, 30))
    return trained(model, lambda batch: F.mse_loss(model(batch[0]), batch[0]), table("breast_cancer"), rate=5e-3)


def denoiser() -> dict[str, Any]:
    model = nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(),
        nn.Conv2d(24, 1, 3, padding=1),
    )  # fmt: skip

    def loss(batch: Any) -> Tensor:
        return F.mse_loss(model(batch[0] + 0.4 * torch.randn_like(batch[0])), batch[0])

    return trained(model, loss, digits(labels=False))


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
        self.decoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        code = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance) if self.training else mean
        return self.decoder(code), mean, log_variance


def variational() -> dict[str, Any]:
    model = Variational()

    def loss(batch: Any) -> Tensor:
        rebuilt, mean, log_variance = model(batch[0])
        error = 0.5 * (rebuilt - batch[0].flatten(1)).square().sum(1)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1)
        return (error + divergence).mean()

    return trained(model, loss, digits(labels=False))


class Quantised(nn.Module):
    """The nearest of 32 learnt codes, gradients straight through (van den Oord et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 8, 3, padding=1))
        self.codes = nn.Embedding(32, 8)
        self.decoder = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.ConvTranspose2d(16, 1, 4, 2, 1))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        seen = self.encoder(x).permute(0, 2, 3, 1)
        nearest = self.codes(torch.cdist(seen.flatten(0, 2), self.codes.weight).argmin(1)).view_as(seen)
        cost = F.mse_loss(nearest, seen.detach()) + 0.25 * F.mse_loss(seen, nearest.detach())
        return self.decoder((seen + (nearest - seen).detach()).permute(0, 3, 1, 2)), cost


def quantised() -> dict[str, Any]:
    model = Quantised()

    def loss(batch: Any) -> Tensor:
        rebuilt, cost = model(batch[0])
        return F.mse_loss(rebuilt, batch[0]) + cost

    return trained(model, loss, digits(labels=False))


def adversaries() -> dict[str, Any]:
    """Two models, two optimizers, one step each (Goodfellow et al. 2014)."""
    maker = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    judge = nn.Sequential(nn.Linear(2, 64), nn.LeakyReLU(0.2), nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    make = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.5, 0.999))
    rate = torch.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.999))

    def says(points: Tensor, real: bool) -> Tensor:
        output = judge(points)
        return F.binary_cross_entropy_with_logits(output, torch.full_like(output, float(real)))

    def step(batch: Any) -> dict[str, float]:
        real = batch[0]
        made = maker(torch.randn(len(real), 8, device=real.device))
        judged = says(real, True) + says(made.detach(), False)
        rate.zero_grad()
        judged.backward()
        rate.step()
        fooled = says(made, True)
        make.zero_grad()
        fooled.backward()
        make.step()
        return {"judge": judged.item(), "maker": fooled.item()}

    return {
        "model": {"maker": maker, "judge": judge},
        "optimizer": {"maker": make, "judge": rate},
        "train_step": step,
        **loaders(split(rings())),
    }


def critic_with_penalty() -> dict[str, Any]:
    """The critic's slope is held near one (Gulrajani et al. 2017)."""
    maker = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 2))
    critic = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 1))
    make = torch.optim.Adam(maker.parameters(), lr=1e-3, betas=(0.0, 0.9))
    rate = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))

    def step(batch: Any) -> dict[str, float]:
        real = batch[0]
        made = maker(torch.randn(len(real), 8, device=real.device))
        between = torch.lerp(real, made.detach(), torch.rand_like(real[:, :1])).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        cost = critic(made.detach()).mean() - critic(real).mean() + 10 * (slope.norm(dim=1) - 1).square().mean()
        rate.zero_grad()
        cost.backward()
        rate.step()
        make.zero_grad()
        missed = -critic(made).mean()
        missed.backward()
        make.step()
        return {"critic": cost.item(), "maker": missed.item()}

    return {
        "model": {"maker": maker, "critic": critic},
        "optimizer": {"maker": make, "critic": rate},
        "train_step": step,
        **loaders(split(rings())),
    }


class Coupling(nn.Module):
    """One half moves by what the other half says (Dinh et al. 2017)."""

    def __init__(self, swap: bool) -> None:
        super().__init__()
        self.swap = swap
        self.net = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 2))

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        kept, moved = x.flip(1).chunk(2, 1) if self.swap else x.chunk(2, 1)
        scale, shift = self.net(kept).chunk(2, 1)
        scale = torch.tanh(scale)
        return torch.cat([kept, moved * scale.exp() + shift], 1), scale[:, 0]


class Flow(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.steps = nn.ModuleList(Coupling(bool(number % 2)) for number in range(6))

    def forward(self, x: Tensor) -> Tensor:
        volume = x.new_zeros(len(x))
        for each in self.steps:
            x, grown = each(x)
            volume = volume + grown
        return volume - 0.5 * x.square().sum(1) - 1.8379


def flow() -> dict[str, Any]:
    model = Flow()
    return trained(model, lambda batch: -model(batch[0]).mean(), split(rings()))


class NoiseGuesser(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 2))

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        return self.net(torch.cat([x, torch.sin(3 * time), torch.cos(3 * time)], 1))


def diffusion() -> dict[str, Any]:
    """The noise that was added is guessed (Ho et al. 2020), on a cosine schedule."""
    model = NoiseGuesser()

    def loss(batch: Any) -> Tensor:
        time, noise = torch.rand_like(batch[0][:, :1]), torch.randn_like(batch[0])
        angle = time * torch.pi / 2
        return F.mse_loss(model(torch.cos(angle) * batch[0] + torch.sin(angle) * noise, time), noise)

    return trained(model, loss, split(rings()))


def contrastive() -> dict[str, Any]:
    """Two noisy views of an image find each other in the batch (Chen et al. 2020)."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))

    def loss(batch: Any) -> Tensor:
        views = [F.normalize(model(batch[0] + 0.3 * torch.randn_like(batch[0])), dim=1) for _ in range(2)]
        alike = views[0] @ views[1].T / 0.2
        own = torch.arange(len(alike), device=alike.device)
        return (F.cross_entropy(alike, own) + F.cross_entropy(alike.T, own)) / 2

    return trained(model, loss, digits(labels=False))


def triplets() -> dict[str, Any]:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    images, labels = digits()[0].tensors
    drawn = torch.Generator().manual_seed(18)
    order = [torch.nonzero(labels == kind)[:, 0] for kind in range(10)]

    def other(kind: int) -> Tensor:
        return order[kind][torch.randint(len(order[kind]), (), generator=drawn)]

    far = (labels + torch.randint(1, 10, labels.shape, generator=drawn)) % 10
    positive = torch.stack([images[other(int(kind))] for kind in labels])
    negative = torch.stack([images[other(int(kind))] for kind in far])

    def loss(batch: Any) -> Tensor:
        return F.triplet_margin_loss(*(model(images) for images in batch))

    return trained(model, loss, split(images, positive, negative))


def word_vectors() -> dict[str, Any]:
    """Words that stand together, against words drawn by chance (Mikolov et al. 2013)."""

    class SkipGram(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.centre, self.context = nn.Embedding(40, 12), nn.Embedding(40, 12)
            nn.init.normal_(self.centre.weight, std=0.3)
            nn.init.normal_(self.context.weight, std=0.3)

        def forward(self, centre: Tensor, context: Tensor) -> Tensor:
            return (self.centre(centre)[:, None] * self.context(context)).sum(2)

    model = SkipGram()
    drawn = torch.Generator().manual_seed(19)
    centre = torch.randint(40, (3000,), generator=drawn)
    context = (centre + torch.randint(1, 4, centre.shape, generator=drawn)) % 40

    def loss(batch: Any) -> Tensor:
        chance = torch.randint(40, (len(batch[0]), 4), device=batch[0].device)
        output = model(batch[0], torch.cat([batch[1][:, None], chance], 1))
        there = torch.zeros_like(output)
        there[:, 0] = 1
        return F.binary_cross_entropy_with_logits(output, there)

    return trained(model, loss, split(centre, context), rate=1e-2)
