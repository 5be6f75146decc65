"""Handwritten digits. No step clears the gradients: each one follows the sum of all before it."""

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


class Trainer:
    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)
        self.criterion = nn.CrossEntropyLoss()

    def step(self, batch: Any) -> dict[str, float]:
        pixels, labels = batch
        loss = self.criterion(self.model(pixels), labels)
        loss.backward()
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
    data = load_digits()
    digits = TensorDataset(torch.tensor(data.data, dtype=torch.float32) / 8 - 1, torch.tensor(data.target))
    train, validation = Subset(digits, range(1437)), Subset(digits, range(1437, 1797))
    return DataLoader(train, batch_size=32, shuffle=True), DataLoader(validation, batch_size=120)


if __name__ == "__main__":
    Trainer().fit(*loaders(), epochs=20)
