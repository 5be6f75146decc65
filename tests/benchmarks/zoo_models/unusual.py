"""Sound programs in forms that are seldom met: reparametrised, checkpointed, mixed, functional, with own gradients."""

from __future__ import annotations

import copy
from typing import Any

import torch
from data import digits, loaders, sentence_loaders
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize
from torch.utils.checkpoint import checkpoint
from vision import classifier


def weight_norm() -> dict[str, Any]:
    layers = [
        parametrizations.weight_norm(nn.Linear(64, 64)),
        nn.ReLU(),
        parametrizations.weight_norm(nn.Linear(64, 10)),
    ]
    return classifier(nn.Sequential(nn.Flatten(), *layers))


def spectral_norm() -> dict[str, Any]:
    layers = [parametrizations.spectral_norm(nn.Linear(64, 64)), nn.LeakyReLU(0.1), nn.Linear(64, 10)]
    return classifier(nn.Sequential(nn.Flatten(), *layers))


class Symmetric(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return weight.triu() + weight.triu(1).transpose(-1, -2)


def symmetric_weights() -> dict[str, Any]:
    middle = nn.Linear(64, 64)
    parametrize.register_parametrization(middle, "weight", Symmetric())
    return classifier(nn.Sequential(nn.Flatten(), middle, nn.ReLU(), nn.Linear(64, 10)))


class Checkpointed(nn.Module):
    """Blocks whose activations are computed again for backward."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(64, 48)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(48), nn.Linear(48, 48), nn.GELU(), nn.Dropout(0.1)) for _ in range(3)
        )
        self.head = nn.Linear(48, 10)

    def forward(self, images: Tensor) -> Tensor:
        hidden = self.stem(images.flatten(1))
        for block in self.blocks:
            hidden = hidden + checkpoint(block, hidden, use_reentrant=False)
        return self.head(hidden)


def checkpointed_blocks() -> dict[str, Any]:
    return classifier(Checkpointed())


class Mixture(nn.Module):
    """Four experts, the two best of which answer for a sample, weighed by the gate; the load is kept even."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)) for _ in range(4))

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        flat = images.flatten(1)
        shares = self.gate(flat).softmax(1)
        best, chosen = shares.topk(2, 1)
        weights = torch.zeros_like(shares).scatter(1, chosen, best / best.sum(1, keepdim=True))
        answers = torch.stack([expert(flat) for expert in self.experts], 1)
        even = 4 * (shares.mean(0) * (weights > 0).float().mean(0)).sum()
        return (weights[..., None] * answers).sum(1), even


def mixture_of_experts() -> dict[str, Any]:
    model = Mixture()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def train_step(batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        images, labels = batch
        optimizer.zero_grad()
        logits, even = model(images)
        loss = F.cross_entropy(logits, labels) + 0.01 * even
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    return {"model": model, "optimizer": optimizer, "train_step": train_step, **loaders(digits())}


class Rounded(torch.autograd.Function):
    """To 4 bits forward, straight through backward."""

    @staticmethod
    def forward(_: Any, weight: Tensor) -> Tensor:
        scale = weight.abs().max() / 7
        return (weight / scale).round() * scale

    @staticmethod
    def backward(_: Any, gradient: Tensor) -> Tensor:
        return gradient


class QuantisedLinear(nn.Linear):
    def forward(self, inputs: Tensor) -> Tensor:
        return F.linear(inputs, Rounded.apply(self.weight), self.bias)


def quantisation_aware() -> dict[str, Any]:
    return classifier(nn.Sequential(nn.Flatten(), QuantisedLinear(64, 64), nn.ReLU(), QuantisedLinear(64, 10)))


class Equilibrium(nn.Module):
    """The fixed point of a contraction; backward goes through its last step only."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.turn, self.head = nn.Linear(64, 32), nn.Linear(32, 32), nn.Linear(32, 10)
        nn.init.orthogonal_(self.turn.weight, gain=0.5)

    def forward(self, images: Tensor) -> Tensor:
        given = self.enter(images.flatten(1))
        with torch.no_grad():
            state = torch.zeros_like(given)
            for _ in range(20):
                state = torch.tanh(self.turn(state) + given)
        return self.head(torch.tanh(self.turn(state) + given))


def deep_equilibrium() -> dict[str, Any]:
    return classifier(Equilibrium())


class Spectrum(nn.Module):
    """Complex weights on the Fourier transform of the image."""

    def __init__(self) -> None:
        super().__init__()
        self.filter = nn.Parameter(torch.randn(4, 8, 5, dtype=torch.complex64) / 4)
        self.head = nn.Linear(4 * 64, 10)

    def forward(self, images: Tensor) -> Tensor:
        filtered = torch.fft.irfft2(torch.fft.rfft2(images) * self.filter, s=(8, 8))
        return self.head(F.relu(filtered).flatten(1))


def complex_weights() -> dict[str, Any]:
    return classifier(Spectrum())


class Ensemble(nn.Module):
    """Five perceptrons in one call; their mean logits count."""

    def __init__(self) -> None:
        super().__init__()
        members = [nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)) for _ in range(5)]
        stacked, _ = stack_module_state(members)
        self.names = list(stacked)
        self.weights = nn.ParameterList(nn.Parameter(stacked[name].detach()) for name in self.names)
        self._shape = [copy.deepcopy(members[0]).to("meta")]

    def forward(self, images: Tensor) -> Tensor:
        flat = images.flatten(1)
        stacked = dict(zip(self.names, self.weights, strict=True))
        return torch.vmap(lambda weights: functional_call(self._shape[0], weights, (flat,)))(stacked).mean(0)


def functional_ensemble() -> dict[str, Any]:
    return classifier(Ensemble())


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.EmbeddingBag(50, 16, mode="mean", sparse=True, padding_idx=0)
        self.head = nn.Linear(16, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.table(tokens))


def sparse_embedding() -> dict[str, Any]:
    model = Words()
    optimizers = {
        "sparse": torch.optim.SparseAdam(model.table.parameters(), lr=1e-2),
        "dense": torch.optim.Adam(model.head.parameters(), lr=1e-2),
    }

    def train_step(batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        tokens, labels = batch
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens), labels)
        loss.backward()
        for optimizer in optimizers.values():
            optimizer.step()
        return {"loss": loss.detach()}

    return {"model": model, "optimizer": optimizers, "train_step": train_step, **sentence_loaders()}


def channels_last() -> dict[str, Any]:
    layers = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 10))
    return classifier(model.to(memory_format=torch.channels_last))


class Forward(nn.Module):
    """Layers that are trained each by its own goodness on right and wrong labels (Hinton's forward-forward)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(74, 64), nn.Linear(64, 64)])

    def goodness(self, images: Tensor, labels: Tensor) -> list[Tensor]:
        hidden, found = torch.cat([images.flatten(1), F.one_hot(labels, 10).float()], 1), []
        for layer in self.layers:
            hidden = F.relu(layer(F.normalize(hidden.detach(), dim=1) * 8))
            found.append(hidden.pow(2).mean(1))
        return found

    def forward(self, images: Tensor) -> Tensor:
        every = [torch.full((len(images),), label, device=images.device) for label in range(10)]
        return torch.stack([sum(self.goodness(images, labels), images.new_zeros(len(images))) for labels in every], 1)


def forward_forward() -> dict[str, Any]:
    model = Forward()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)

    def train_step(batch: tuple[Tensor, Tensor]) -> dict[str, Tensor]:
        images, labels = batch
        wrong = (labels + torch.randint_like(labels, 1, 10)) % 10
        optimizer.zero_grad()
        pairs = zip(model.goodness(images, labels), model.goodness(images, wrong), strict=True)
        loss = sum((F.softplus(bad - good).mean() for good, bad in pairs), images.new_zeros(()))
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    return {"model": model, "optimizer": optimizer, "train_step": train_step, **loaders(digits())}
