"""Malignant or benign. The gradients are cleared after the backward pass: the optimizer finds nothing to follow."""

from typing import Any

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


class Trainer:
    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.criterion = nn.CrossEntropyLoss()

    def step(self, batch: Any) -> dict[str, float]:
        features, malignant = batch
        loss = self.criterion(self.model(features), malignant)
        loss.backward()
        self.optimizer.zero_grad()
        self.optimizer.step()
        return {"loss": loss.item()}


def build() -> dict[str, Any]:
    data = load_breast_cancer()
    features = torch.tensor(data.data, dtype=torch.float32)
    features = (features - features[:455].mean(0)) / features[:455].std(0)
    patients = TensorDataset(features, torch.tensor(data.target))
    trainer = Trainer()
    return {
        "model": trainer.model,
        "optimizer": trainer.optimizer,
        "loss": trainer.criterion,
        "train_loader": DataLoader(Subset(patients, range(455)), batch_size=32, shuffle=True),
        "validation_loader": DataLoader(Subset(patients, range(455, 569)), batch_size=114),
        "train_step": trainer.step,
    }
