"""Handwritten digits in mixed precision. The clipping sees gradients that are still scaled: it shrinks them to nothing."""

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def build() -> dict[str, Any]:
    data = load_digits()
    digits = TensorDataset(torch.tensor(data.data, dtype=torch.float32) / 8 - 1, torch.tensor(data.target))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    scaler = torch.amp.GradScaler("cpu")

    def train_step(batch: Any) -> dict[str, float]:
        pixels, labels = batch
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = criterion(model(pixels), labels)
        scaler.scale(loss).backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
        return {"loss": loss.item()}

    return {
        "model": model,
        "optimizer": optimizer,
        "loss": criterion,
        "train_loader": DataLoader(Subset(digits, range(1437)), batch_size=32, shuffle=True),
        "validation_loader": DataLoader(Subset(digits, range(1437, 1797)), batch_size=128),
        "train_step": train_step,
    }
