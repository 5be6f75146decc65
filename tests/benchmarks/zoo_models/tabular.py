"""Sound models of tables: classes, amounts, counts, several targets."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from data import loaders, split, table
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, IterableDataset, TensorDataset


def parts(model: nn.Module, loss: Any, sets: Any, rate: float = 5e-3) -> dict[str, Any]:
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=rate),
        "loss": loss,
        **loaders(sets),
    }


def hidden(inputs: int, outputs: int, width: int = 32) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)
    )


def wine() -> dict[str, Any]:
    return parts(hidden(13, 3), nn.CrossEntropyLoss(), table("wine"))


def iris() -> dict[str, Any]:
    return parts(hidden(4, 3, 16), nn.CrossEntropyLoss(), table("iris"), rate=1e-2)


def logistic_regression() -> dict[str, Any]:
    training, validation = table("breast_cancer")
    columns = [TensorDataset(s.tensors[0], s.tensors[1].float()[:, None]) for s in (training, validation)]
    return parts(nn.Linear(30, 1), nn.BCEWithLogitsLoss(), columns, rate=2e-2)


def probabilities() -> dict[str, Any]:
    training, validation = table("breast_cancer")
    columns = [TensorDataset(s.tensors[0], s.tensors[1].float()[:, None]) for s in (training, validation)]
    return parts(nn.Sequential(hidden(30, 1), nn.Sigmoid()), nn.BCELoss(), columns)


def hinge() -> dict[str, Any]:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        return F.relu(1 - output.squeeze(1) * (2.0 * target - 1)).mean()

    return parts(hidden(30, 1), loss, table("breast_cancer"))


def self_normalising() -> dict[str, Any]:
    layers: list[nn.Module] = []
    for width in (13, 32, 32, 32):
        linear = nn.Linear(width, 32)
        nn.init.kaiming_normal_(linear.weight, nonlinearity="linear")
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.SELU()]
    return parts(nn.Sequential(*layers, nn.Linear(32, 3)), nn.CrossEntropyLoss(), table("wine"), rate=2e-3)


def linear_regression() -> dict[str, Any]:
    model = nn.Linear(10, 1)
    return parts(model, nn.MSELoss(), table("diabetes", classes=False), rate=2e-2)


def robust_regression() -> dict[str, Any]:
    return parts(hidden(10, 1), nn.HuberLoss(), table("diabetes", classes=False), rate=2e-3)


def quantiles() -> dict[str, Any]:
    levels = torch.tensor([0.1, 0.5, 0.9])

    def pinball(output: Tensor, target: Tensor) -> Tensor:
        missed = target - output
        at = levels.to(missed.device)
        return torch.maximum(at * missed, (at - 1) * missed).mean()

    return parts(hidden(10, 3), pinball, table("diabetes", classes=False), rate=2e-3)


def own_variance() -> dict[str, Any]:
    def loss(output: Tensor, target: Tensor) -> Tensor:
        return F.gaussian_nll_loss(output[:, :1], target, F.softplus(output[:, 1:]) + 1e-3)

    return parts(hidden(10, 2), loss, table("diabetes", classes=False), rate=2e-3)


def _made(count: int = 1500, features: int = 8) -> tuple[Tensor, Tensor]:
    noise = np.random.default_rng(7)
    x = noise.normal(size=(count, features))
    return torch.from_numpy(x).float(), torch.from_numpy(np.sin(x[:, 0]) + 0.5 * x[:, 1] * x[:, 2]).float()


def counts() -> dict[str, Any]:
    x, signal = _made()
    events = torch.poisson(torch.exp(0.8 * signal + 0.5), generator=torch.Generator().manual_seed(8))
    return parts(hidden(8, 1), nn.PoissonNLLLoss(), split(x, events[:, None]))


def several_amounts() -> dict[str, Any]:
    x, signal = _made()
    targets = torch.stack([signal, x[:, 3].abs() - 0.8, torch.tanh(x[:, 4] * 2)], 1)
    return parts(hidden(8, 3), nn.SmoothL1Loss(), split(x, targets))


def several_labels() -> dict[str, Any]:
    x, signal = _made()
    labels = torch.stack([signal > 0, x[:, 3] > 0.5, x[:, 4] * x[:, 5] > 0, x[:, 6] < -0.3], 1).float()
    return parts(hidden(8, 4), nn.BCEWithLogitsLoss(), split(x, labels))


def ordered_classes() -> dict[str, Any]:
    """One score and learnt thresholds (CORAL, Cao et al. 2020)."""

    class Ordinal(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.score = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1, bias=False))
            self.thresholds = nn.Parameter(torch.tensor([1.0, 0.0, -1.0]))

        def forward(self, x: Tensor) -> Tensor:
            return self.score(x) + self.thresholds

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            output, (target[:, None] > torch.arange(3, device=target.device)).float()
        )

    x, signal = _made()
    return parts(Ordinal(), loss, split(x, torch.bucketize(signal, torch.tensor([-0.7, 0.0, 0.7]))))


class Categories(nn.Module):
    """Embedded categories beside numbers, in a dict."""

    def __init__(self) -> None:
        super().__init__()
        self.shop, self.day = nn.Embedding(12, 6), nn.Embedding(7, 4)
        self.rest = nn.Sequential(nn.Linear(6 + 4 + 8, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, shop: Tensor, day: Tensor, numbers: Tensor) -> Tensor:
        return self.rest(torch.cat([self.shop(shop), self.day(day), numbers], 1)).squeeze(1)


class Rows(torch.utils.data.Dataset):
    def __init__(self, first: int, last: int) -> None:
        noise = np.random.default_rng(9)
        shop, day = noise.integers(0, 12, 1500), noise.integers(0, 7, 1500)
        x, signal = _made()
        self.shop, self.day = torch.from_numpy(shop)[first:last], torch.from_numpy(day)[first:last]
        self.numbers = x[first:last]
        self.target = (signal + torch.from_numpy(np.sin(shop) + 0.3 * (day > 4)).float())[first:last]

    def __len__(self) -> int:
        return len(self.target)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        names = ("shop", "day", "numbers", "target")
        return {name: getattr(self, name)[index] for name in names}


def categories() -> dict[str, Any]:
    return parts(Categories(), nn.MSELoss(), (Rows(0, 1200), Rows(1200, 1500)))


def two_heads() -> dict[str, Any]:
    """A class and an amount from one trunk, losses added."""

    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk = nn.Sequential(nn.Linear(8, 32), nn.ReLU())
            self.kind, self.amount = nn.Linear(32, 2), nn.Linear(32, 1)

        def forward(self, x: Tensor) -> dict[str, Tensor]:
            seen = self.trunk(x)
            return {"kind": self.kind(seen), "amount": self.amount(seen).squeeze(1)}

    model = Heads()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def losses(batch: Any) -> dict[str, Tensor]:
        x, kind, amount = batch
        output = model(x)
        kind_loss, amount_loss = F.cross_entropy(output["kind"], kind), F.mse_loss(output["amount"], amount)
        return {"loss": kind_loss + amount_loss, "kind": kind_loss, "amount": amount_loss}

    def step(batch: Any) -> dict[str, float]:
        model.train()
        found = losses(batch)
        optimizer.zero_grad()
        found["loss"].backward()
        optimizer.step()
        return {name: value.item() for name, value in found.items()}

    @torch.inference_mode()
    def evaluate(batch: Any) -> dict[str, float]:
        model.eval()
        return {name: value.item() for name, value in losses(batch).items()}

    x, signal = _made()
    sets = split(x, (x[:, 3] > x[:, 4]).long(), signal)
    return {"model": model, "optimizer": optimizer, "train_step": step, "evaluate_step": evaluate, **loaders(sets)}


class Stream(IterableDataset):
    """Rows that are made as they are read; every epoch brings new ones."""

    def __init__(self, rows: int, seed: int | None) -> None:
        self.rows, self.seed = rows, seed

    def __iter__(self) -> Any:
        drawn = torch.Generator().manual_seed(int(torch.randint(2**31, ())) if self.seed is None else self.seed)
        for _ in range(self.rows):
            x = torch.randn(8, generator=drawn)
            yield x, torch.sin(x[:1]) + x[1:2] * x[2:3]


def stream() -> dict[str, Any]:
    model = hidden(8, 1)
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3),
        "loss": nn.MSELoss(),
        "train_loader": DataLoader(Stream(1024, None), batch_size=32),
        "validation_loader": DataLoader(Stream(256, 1), batch_size=64),
    }


def mixture_density() -> dict[str, Any]:
    """Three Gaussians for a target with two answers (Bishop 1994)."""

    def loss(output: Tensor, target: Tensor) -> Tensor:
        weight, mean, scale = output.chunk(3, 1)
        likely = torch.distributions.Normal(mean, F.softplus(scale) + 0.05).log_prob(target)
        return -torch.logsumexp(F.log_softmax(weight, 1) + likely, 1).mean()

    x, signal = _made()
    side = torch.randint(0, 2, (len(x), 1), generator=torch.Generator().manual_seed(10)) * 2 - 1
    targets = side * (signal[:, None].abs() + 0.5) + 0.05 * torch.randn(
        len(x), 1, generator=torch.Generator().manual_seed(11)
    )
    return parts(hidden(8, 9), loss, split(x, targets))


def matrix_factors() -> dict[str, Any]:
    """Ratings from learnt vectors of users and items."""

    class Factors(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.user, self.item = nn.Embedding(60, 8), nn.Embedding(40, 8)
            nn.init.normal_(self.user.weight, std=0.1)
            nn.init.normal_(self.item.weight, std=0.1)
            self.bias = nn.Embedding(40, 1)

        def forward(self, user: Tensor, item: Tensor) -> Tensor:
            return (self.user(user) * self.item(item)).sum(1) + self.bias(item)[:, 0]

    noise = np.random.default_rng(12)
    taste, kind = noise.normal(size=(60, 3)), noise.normal(size=(40, 3))
    user, item = (axis.ravel() for axis in np.meshgrid(np.arange(60), np.arange(40)))
    rating = (taste[user] * kind[item]).sum(1) / 2
    sets = split(torch.from_numpy(user), torch.from_numpy(item), torch.from_numpy(rating).float())
    return parts(Factors(), nn.MSELoss(), sets, rate=2e-2)


def set_of_points() -> dict[str, Any]:
    """The spread of a set, whatever the order of its points (Zaheer et al. 2017)."""

    class DeepSet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.each = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32))
            self.whole = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))

        def forward(self, points: Tensor) -> Tensor:
            return self.whole(self.each(points).mean(1))

    noise = np.random.default_rng(13)
    label = noise.integers(0, 3, 900)
    points = noise.normal(size=(900, 20, 2)) * (0.4 + 0.6 * label)[:, None, None]
    return parts(DeepSet(), nn.CrossEntropyLoss(), split(torch.from_numpy(points).float(), torch.from_numpy(label)))
