"""Sound training programs of many kinds, as trials: no probe may complain about them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from probe_programs import broken, classes, cross_entropy, mlp, trial_of
from torch import Tensor, nn

from mlcheck.trial.trial import Trial


class Residual(nn.Module):
    """A convolutional block with batch norm whose last scale starts at zero."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 1),
        )
        self.norm = nn.BatchNorm2d(channels)
        nn.init.zeros_(self.norm.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(x + self.norm(self.inner(x)))


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 16)
        self.rnn = nn.LSTM(16, 32, num_layers=2, dropout=0.3, batch_first=True)
        self.head = nn.Linear(32, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.rnn(self.embed(tokens))[0][:, -1])


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 32)
        self.place = nn.Parameter(torch.randn(6, 32))
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.head = nn.Linear(32, 5)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.layers(self.embed(tokens) + self.place).mean(1))


class Autoencoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = nn.Linear(8, 8), nn.Linear(4, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encode(x).chunk(2, dim=1)
        return self.decode(mean + torch.randn_like(mean) * (log_variance / 2).exp()), mean, log_variance


def _elbo(model: nn.Module, batch: Any) -> Tensor:
    rebuilt, mean, log_variance = model(batch[0])
    divergence = (mean**2 + log_variance.exp() - 1 - log_variance).sum(1).mean() / 2
    return F.mse_loss(rebuilt, batch[0]) + 0.01 * divergence


def _tokens() -> list[Any]:
    generator = torch.Generator().manual_seed(2)
    return [
        (torch.randint(20, (32, 6), generator=generator), torch.randint(5, (32,), generator=generator))
        for _ in range(4)
    ]


def _frozen() -> Trial:
    model = mlp()
    for parameter in model[:2].parameters():
        parameter.requires_grad_(False)
    return trial_of(model, classes(8), cross_entropy, torch.optim.Adam(model[2:].parameters(), lr=3e-3))


def _critic_without_sigmoid() -> Trial:
    """The last bias of a Wasserstein critic cancels in its own loss, and gets a gradient from the generator's."""
    trial = _gan()
    generator, critic = trial.models["generator"], trial.models["critic"]
    opt_g, opt_c = trial.optimizers["opt_g"], trial.optimizers["opt_c"]

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        fake = generator(torch.randn(len(batch), 4))
        opt_c.zero_grad()
        (critic(fake.detach()).mean() - critic(batch).mean()).backward()
        opt_c.step()
        opt_g.zero_grad()
        loss_g = -critic(fake).mean()
        loss_g.backward()
        opt_g.step()
        return {"loss": loss_g.detach()}

    trial.train_step = step
    return trial


def _gan() -> Trial:
    generator, critic = mlp(4, 2), mlp(2, 1)
    opt_g = torch.optim.Adam(generator.parameters(), lr=1e-3)
    opt_c = torch.optim.Adam(critic.parameters(), lr=1e-3)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        fake = generator(torch.randn(len(batch), 4))
        opt_c.zero_grad()
        loss_c = F.softplus(-critic(batch)).mean() + F.softplus(critic(fake.detach())).mean()
        loss_c.backward()
        opt_c.step()
        opt_g.zero_grad()
        loss_g = F.softplus(-critic(fake)).mean()
        loss_g.backward()
        opt_g.step()
        return {"loss": loss_g.detach()}

    found = trial_of(generator, [torch.randn(32, 2) for _ in range(4)], cross_entropy, step=step)
    found.models, found.optimizers = {"generator": generator, "critic": critic}, {"opt_g": opt_g, "opt_c": opt_c}
    found.evaluate_step = found.validation_batches = None
    return found


def _accumulating() -> Trial:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        model.train()
        loss = cross_entropy(model, batch)
        (loss / 4).backward()
        if index % 4 == 3:
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, optimizer, step=step)


def _lenet() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(0.3), nn.Flatten(), nn.Linear(54, 32), nn.ReLU(),
        nn.Linear(32, 5),
    )  # fmt: skip


def _resnet() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), Residual(8), nn.Flatten(), nn.Linear(288, 5))


def _regression() -> Trial:
    batches = [(torch.randn(32, 8), torch.randn(32, 1)) for _ in range(4)]
    return trial_of(mlp(8, 1), batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))


def _multilabel() -> Trial:
    batches = [(torch.randn(32, 8), (torch.rand(32, 5) < 0.3).float()) for _ in range(4)]
    return trial_of(mlp(), batches, lambda m, batch: F.binary_cross_entropy_with_logits(m(batch[0]), batch[1]))


def _segmentation() -> Trial:
    batches = [(image := torch.randn(8, 3, 8, 8), (image.sum(1) > 0).long()) for _ in range(4)]
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 2, 1))
    return trial_of(model, batches, cross_entropy)


def _log_softmax() -> Trial:
    model = nn.Sequential(*mlp(), nn.LogSoftmax(1))
    return trial_of(model, classes(8), lambda model, batch: F.nll_loss(model(batch[0]), batch[1]))


def _slow() -> Trial:
    model = mlp()
    return trial_of(model, classes(8), cross_entropy, torch.optim.SGD(model.parameters(), lr=1e-3))


SOUND: dict[str, Callable[[], Trial]] = {
    "mlp": lambda: trial_of(mlp(), classes(8), cross_entropy),
    "log-softmax": _log_softmax,
    "log-softmax before cross entropy": lambda: broken(nn.LogSoftmax(1)),
    "lenet": lambda: trial_of(_lenet(), classes(1, 8, 8), cross_entropy),
    "resnet": lambda: trial_of(_resnet(), classes(1, 8, 8), cross_entropy),
    "lstm": lambda: trial_of(Tagger(), _tokens(), cross_entropy),
    "transformer": lambda: trial_of(Encoder(), _tokens(), cross_entropy),
    "regression": _regression,
    "frozen": _frozen,
    "gan": _gan,
    "critic without sigmoid": _critic_without_sigmoid,
    "vae": lambda: trial_of(Autoencoder(), classes(8), _elbo),
    "multilabel": _multilabel,
    "segmentation": _segmentation,
    "accumulating": _accumulating,
    "slow": _slow,
}
