"""Three cultivars of wine. Evaluation builds a graph for every batch, and keeps it alive in the list of losses."""

from typing import Any

import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def train_one_epoch(model: nn.Module, loader: Any, optimizer: torch.optim.Optimizer, criterion: nn.Module) -> None:
    model.train()
    for features, cultivar in loader:
        optimizer.zero_grad()
        loss = criterion(model(features), cultivar)
        loss.backward()
        optimizer.step()


def validate(model: nn.Module, loader: Any, criterion: nn.Module) -> float:
    model.eval()
    losses = []
    for features, cultivar in loader:
        losses.append(criterion(model(features), cultivar))
    return float(sum(losses)) / len(losses)


def main() -> None:
    parts = build()
    model, optimizer, criterion = parts["model"], parts["optimizer"], parts["loss"]
    for epoch in range(20):
        train_one_epoch(model, parts["train_loader"], optimizer, criterion)
        print(epoch, validate(model, parts["validation_loader"], criterion))


def build() -> dict[str, Any]:
    data = load_wine()
    features = torch.tensor(data.data, dtype=torch.float32)
    wine = TensorDataset((features - features.mean(0)) / features.std(0), torch.tensor(data.target))
    train, validation = random_split(wine, (140, 38), torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 3))
    return {
        "model": model,
        "optimizer": torch.optim.Adam(model.parameters(), lr=0.003),
        "loss": nn.CrossEntropyLoss(),
        "train_loader": DataLoader(train, batch_size=16, shuffle=True),
        "validation_loader": DataLoader(validation, batch_size=38),
    }


if __name__ == "__main__":
    main()
