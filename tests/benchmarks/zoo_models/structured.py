"""Sound models of masks, boxes, graphs and equations."""

from __future__ import annotations

from typing import Any

import torch
from data import communities, loaders, shapes, split
from generative import trained
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset


class SmallUNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.deep = nn.Sequential(nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU())
        self.up = nn.ConvTranspose2d(32, 16, 2, 2)
        self.out = nn.Conv2d(32, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.down(x)
        return self.out(torch.cat([seen, self.up(self.deep(F.max_pool2d(seen, 2)))], 1))


def segmentation() -> dict[str, Any]:
    images, masks, _, _ = shapes()
    model = SmallUNet()
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "loss": nn.BCEWithLogitsLoss(),
        **loaders(split(images, masks), batch=16),
    }


def segmentation_by_overlap() -> dict[str, Any]:
    def dice(output: Tensor, target: Tensor) -> Tensor:
        likely = torch.sigmoid(output)
        both = (likely * target).sum((1, 2, 3))
        return 1 - ((2 * both + 1) / (likely.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)).mean()

    return segmentation() | {"loss": dice}


def segmentation_by_class() -> dict[str, Any]:
    """Three classes a pixel: nothing, disc, square."""
    images, masks, _, kinds = shapes()
    classes = (masks[:, 0] * (1 + kinds[:, None, None])).long()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 24, 5, padding=2), nn.ReLU(),
        nn.Conv2d(24, 24, 5, padding=4, dilation=2), nn.ReLU(), nn.Conv2d(24, 3, 1),
    )  # fmt: skip
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "loss": nn.CrossEntropyLoss(),
        **loaders(split(images, classes), batch=16),
    }


class Boxes(Dataset):
    def __init__(self, columns: tuple[Tensor, ...]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        image, box, kind = (column[index] for column in self.columns)
        return {"image": image, "box": box, "kind": kind}


class Detector(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
            nn.Flatten(), nn.Linear(32 * 36, 64), nn.ReLU(),
        )  # fmt: skip
        self.box, self.kind = nn.Linear(64, 4), nn.Linear(64, 2)

    def forward(self, image: Tensor) -> dict[str, Tensor]:
        seen = self.features(image)
        return {"box": torch.sigmoid(self.box(seen)), "kind": self.kind(seen)}


def detection() -> dict[str, Any]:
    images, _, boxes, kinds = shapes()
    model = Detector()

    def loss(batch: Any) -> Tensor:
        output = model(batch["image"])
        return 5 * F.smooth_l1_loss(output["box"], batch["box"]) + F.cross_entropy(output["kind"], batch["kind"])

    parts = trained(model, loss, split(images))
    parts["train_loader"] = DataLoader(Boxes((images[:480], boxes[:480], kinds[:480])), 16, shuffle=True)
    parts["validation_loader"] = DataLoader(Boxes((images[480:], boxes[480:], kinds[480:])), 32)
    return parts


def key_points() -> dict[str, Any]:
    """The centre of the shape as the mean place of a softmax over the picture."""

    class Pointer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.heat = nn.Sequential(nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 1, 5, padding=2))

        def forward(self, x: Tensor) -> Tensor:
            heat = self.heat(x).flatten(1).softmax(1).view(-1, 24, 24)
            place = torch.linspace(0, 1, 24, device=x.device)
            return torch.stack([heat.sum(1) @ place, heat.sum(2) @ place], 1)

    images, _, boxes, _ = shapes()
    model = Pointer()
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=2e-3),
        "loss": nn.MSELoss(),
        **loaders(split(images, boxes[:, :2]), batch=16),
    }


class WholeGraph(Dataset):
    """One graph is one batch."""

    def __init__(self, nodes: Tensor, repeat: int) -> None:
        features, adjacency, group = communities()
        self.graph = {"features": features, "adjacency": adjacency, "nodes": nodes, "target": group[nodes]}
        self.repeat = repeat

    def __len__(self) -> int:
        return self.repeat

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return self.graph


class GraphConvolutions(nn.Module):
    """Kipf and Welling 2017."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 4)

    def forward(self, features: Tensor, adjacency: Tensor, nodes: Tensor) -> Tensor:
        seen = F.dropout(F.relu(adjacency @ self.first(features)), 0.2, self.training)
        return (adjacency @ self.second(seen))[nodes]


def graph_convolutions() -> dict[str, Any]:
    model = GraphConvolutions()
    order = torch.randperm(200, generator=torch.Generator().manual_seed(20))
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4),
        "loss": nn.CrossEntropyLoss(),
        "train_loader": DataLoader(WholeGraph(order[:120], 20), batch_size=None),
        "validation_loader": DataLoader(WholeGraph(order[120:], 1), batch_size=None),
    }


def attention_over_nodes() -> dict[str, Any]:
    class NodeAttention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.into = nn.Linear(16, 32)
            self.query, self.key = nn.Linear(32, 32), nn.Linear(32, 32)
            self.out = nn.Linear(64, 4)

        def forward(self, features: Tensor, adjacency: Tensor, nodes: Tensor) -> Tensor:
            seen = F.elu(self.into(features))
            alike = (self.query(seen) @ self.key(seen).T / 32**0.5).masked_fill(adjacency == 0, float("-inf"))
            return self.out(torch.cat([seen, alike.softmax(1) @ seen], 1))[nodes]

    model = NodeAttention()
    return graph_convolutions() | {"model": model, "optimizer": torch.optim.Adam(model.parameters(), lr=5e-3)}


def differential_equation() -> dict[str, Any]:
    """u' = -2u, u(0) = 1: the equation itself is the loss (Raissi et al. 2019)."""
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))

    def loss(batch: Any) -> Tensor:
        with torch.enable_grad():
            time = batch[0].clone().requires_grad_()
            value = model(time)
            (slope,) = torch.autograd.grad(value.sum(), time, create_graph=True)
            return (slope + 2 * value).square().mean() + (model(value.new_zeros(1, 1)) - 1).square().mean()

    return trained(model, loss, split(2 * torch.rand(1000, 1, generator=torch.Generator().manual_seed(21))))


def actions_from_logs() -> dict[str, Any]:
    """Action values from recorded moves, with a slow copy as the target (Mnih et al. 2015)."""
    values = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))
    slow = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3))
    slow.load_state_dict(values.state_dict())
    slow.requires_grad_(False)
    drawn = torch.Generator().manual_seed(22)
    state = torch.randn(2000, 4, generator=drawn)
    action = torch.randint(3, (2000,), generator=drawn)
    reward = state[torch.arange(2000), action]
    after = 0.5 * state + 0.5 * torch.randn(2000, 4, generator=drawn)

    def loss(batch: Any) -> Tensor:
        state, action, reward, after = batch
        with torch.no_grad():
            wanted = reward + 0.5 * slow(after).amax(1)
            for old, new in zip(slow.parameters(), values.parameters()):
                old.lerp_(new, 0.01)
        return F.smooth_l1_loss(values(state).gather(1, action[:, None])[:, 0], wanted)

    return trained(values, loss, split(state, action, reward, after))
