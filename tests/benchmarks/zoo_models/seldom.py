"""Sound models of kinds that are met less often: momentum encoders, energies, weights made by weights, two networks."""

from __future__ import annotations

import copy
from typing import Any

import torch
from data import digits, loaders, rings, split
from generative import evaluated, trained
from torch import Tensor, nn
from torch.nn import functional as F
from vision import classifier


def bfloat16_weights() -> dict[str, Any]:
    """All of the model in bfloat16, as large models are fine-tuned."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(torch.bfloat16)

    def loss(batch: Any) -> Tensor:
        return F.cross_entropy(model(batch[0].to(torch.bfloat16)).float(), batch[1])

    return trained(model, loss, digits(), rate=1e-2)


def compiled() -> dict[str, Any]:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    return classifier(torch.compile(model, backend="aot_eager"))


class Heads(nn.Module):
    """A trunk of nested blocks and a dictionary of heads."""

    def __init__(self) -> None:
        super().__init__()
        blocks = [nn.Sequential(nn.Linear(64, 64), nn.Sequential(nn.LayerNorm(64), nn.GELU())) for _ in range(2)]
        self.trunk = nn.Sequential(nn.Flatten(), *blocks)
        self.heads = nn.ModuleDict({"digit": nn.Linear(64, 10), "even": nn.Linear(64, 2)})

    def forward(self, images: Tensor) -> dict[str, Tensor]:
        features = self.trunk(images)
        return {name: head(features) for name, head in self.heads.items()}


def nested_heads() -> dict[str, Any]:
    model = Heads()

    def loss(batch: Any) -> Tensor:
        told = model(batch[0])
        return F.cross_entropy(told["digit"], batch[1]) + F.cross_entropy(told["even"], batch[1] % 2)

    return trained(model, loss, digits())


class Momentum(nn.Module):
    """A query encoder, a slow copy of it for the keys, and a queue of earlier keys (He et al. 2020)."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.register_buffer("queue", F.normalize(torch.randn(128, 16), dim=1))

    @torch.no_grad()
    def keys(self, images: Tensor) -> Tensor:
        return F.normalize(self.key(images), dim=1)

    @torch.no_grad()
    def follow(self, keys: Tensor) -> None:
        for slow, fast in zip(self.key.parameters(), self.query.parameters(), strict=True):
            slow.lerp_(fast, 0.01)
        self.queue.copy_(torch.cat([keys, self.queue])[: len(self.queue)])

    def forward(self, images: Tensor) -> Tensor:
        return F.normalize(self.query(images), dim=1)


def momentum_contrast() -> dict[str, Any]:
    model = Momentum()
    optimizer = torch.optim.Adam(model.query.parameters(), lr=2e-3)

    def scores(images: Tensor) -> tuple[Tensor, Tensor]:
        queries = model(images + 0.3 * torch.randn_like(images))
        keys = model.keys(images + 0.3 * torch.randn_like(images))
        own = (queries * keys).sum(1, keepdim=True)
        return torch.cat([own, queries @ model.queue.T], dim=1) / 0.2, keys

    def loss(batch: Any) -> Tensor:
        return F.cross_entropy(
            scores(batch[0])[0], torch.zeros(len(batch[0]), dtype=torch.long, device=batch[0].device)
        )

    def step(batch: Any) -> Tensor:
        model.train()
        optimizer.zero_grad()
        found, keys = scores(batch[0])
        value = F.cross_entropy(found, torch.zeros(len(found), dtype=torch.long, device=found.device))
        value.backward()
        optimizer.step()
        model.follow(keys)
        return value.detach()

    return {
        "model": model,
        "optimizer": optimizer,
        "train_step": step,
        "evaluate_step": evaluated(model, loss),
        **loaders(digits(labels=False)),
    }


def variance_invariance_covariance() -> dict[str, Any]:
    """VICReg (Bardes et al. 2022)."""
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))

    def spread(features: Tensor) -> Tensor:
        centred = features - features.mean(0)
        variance = F.relu(1 - (centred.var(0) + 1e-4).sqrt()).mean()
        covariance = centred.T @ centred / (len(features) - 1)
        return 25 * variance + (covariance - covariance.diag().diag()).pow(2).sum() / features.shape[1]

    def loss(batch: Any) -> Tensor:
        one, other = (model(batch[0] + 0.3 * torch.randn_like(batch[0])) for _ in range(2))
        return 25 * F.mse_loss(one, other) + spread(one) + spread(other)

    return trained(model, loss, digits(labels=False))


def energy() -> dict[str, Any]:
    """Noise is told from data by an energy (noise-contrastive estimation, Gutmann and Hyvarinen 2010)."""
    model = nn.Sequential(nn.Linear(2, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1))

    def loss(batch: Any) -> Tensor:
        noise = 1.5 * torch.randn_like(batch[0])
        scores = [-model(points)[:, 0] - density(points) for points in (batch[0], noise)]
        return F.softplus(-scores[0]).mean() + F.softplus(scores[1]).mean()

    def density(points: Tensor) -> Tensor:
        return torch.distributions.Normal(0.0, 1.5).log_prob(points).sum(1)

    return trained(model, loss, split(rings()))


class WeightsOfWeights(nn.Module):
    """A small network makes the weights of a classifier's rows from an embedding of each (Ha et al. 2017)."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = nn.Parameter(torch.randn(10, 8))
        self.maker = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 33))
        self.features = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU())

    def forward(self, images: Tensor) -> Tensor:
        made = self.maker(self.rows)
        return F.linear(self.features(images), made[:, :32] / 32**0.5, made[:, 32])


def hypernetwork() -> dict[str, Any]:
    return classifier(WeightsOfWeights())


def actor_and_critic() -> dict[str, Any]:
    """One step of advantage actor-critic on a contextual bandit: the reward is 1 where the action is the digit."""
    actor = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    critic = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizers = {
        "actor": torch.optim.Adam(actor.parameters(), lr=2e-3),
        "critic": torch.optim.Adam(critic.parameters(), lr=5e-3),
    }

    def step(batch: Any) -> dict[str, Tensor]:
        policy = torch.distributions.Categorical(logits=actor(batch[0]))
        action = policy.sample()
        reward = (action == batch[1]).float()
        value = critic(batch[0])[:, 0]
        gain = (reward - value).detach()
        losses = {
            "actor": -(policy.log_prob(action) * gain).mean() - 0.01 * policy.entropy().mean(),
            "critic": F.mse_loss(value, reward),
        }
        for name, optimizer in optimizers.items():
            optimizer.zero_grad()
            losses[name].backward()
            optimizer.step()
        return {"reward": reward.mean()}

    return {
        "model": {"actor": actor, "critic": critic},
        "optimizer": optimizers,
        "train_step": step,
        **loaders(digits()),
    }
