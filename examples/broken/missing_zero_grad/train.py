"""Handwritten digits. No step clears the gradients: each one follows the sum of all before it."""

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def build() -> dict[str, Any]:
    data = load_digits()
    digits = TensorDataset(torch.tensor(data.data, dtype=torch.float32) / 8 - 1, torch.tensor(data.target))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    criterion = nn.CrossEntropyLoss()

    def train_step(batch: Any) -> dict[str, float]:
        pixels, labels = batch
        loss = criterion(model(pixels), labels)
        loss.backward()
        optimizer.step()
        return {"loss": loss.item()}

    return {
        "model": model,
        "optimizer": optimizer,
        "loss": criterion,
        "train_loader": DataLoader(Subset(digits, range(1437)), batch_size=32, shuffle=True),
        "validation_loader": DataLoader(Subset(digits, range(1437, 1797)), batch_size=128),
        "train_step": train_step,
    }
