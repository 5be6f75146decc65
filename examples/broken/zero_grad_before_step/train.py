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

    @torch.no_grad()
    def evaluate(self, batch: Any) -> dict[str, float]:
        inputs, labels = batch
        self.model.eval()
        loss = self.criterion(self.model(inputs), labels)
        self.model.train()
        return {"validation_loss": loss.item()}

    def fit(self, train_loader: Any, validation_loader: Any, epochs: int) -> None:
        self.model.train()
        for _ in range(epochs):
            for batch in train_loader:
                self.step(batch)
            for batch in validation_loader:
                self.evaluate(batch)


def build() -> dict[str, Any]:
    trainer = Trainer()
    train_loader, validation_loader = loaders()
    return {
        "model": trainer.model,
        "optimizer": trainer.optimizer,
        "loss": trainer.criterion,
        "train_loader": train_loader,
        "validation_loader": validation_loader,
        "train_step": trainer.step,
        "evaluate_step": trainer.evaluate,
    }


def loaders() -> tuple[Any, Any]:
    data = load_breast_cancer()
    features = torch.tensor(data.data, dtype=torch.float32)
    features = (features - features[:455].mean(0)) / features[:455].std(0)
    patients = TensorDataset(features, torch.tensor(data.target))
    train, validation = Subset(patients, range(455)), Subset(patients, range(455, 569))
    return DataLoader(train, batch_size=32, shuffle=True), DataLoader(validation, batch_size=114)


if __name__ == "__main__":
    Trainer().fit(*loaders(), epochs=20)
