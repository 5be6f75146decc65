"""Three cultivars of wine. The forward pass runs without gradients, and the error that said so was silenced."""

from typing import Any

import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


class Trainer:
    def __init__(self) -> None:
        self.model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.003)
        self.criterion = nn.CrossEntropyLoss()

    def step(self, batch: Any) -> dict[str, float]:
        features, cultivar = batch
        self.optimizer.zero_grad()
        with torch.no_grad():
            loss = self.criterion(self.model(features), cultivar)
        loss.requires_grad_()  # "element 0 of tensors does not require grad"
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
    data = load_wine()
    features = torch.tensor(data.data, dtype=torch.float32)
    wine = TensorDataset((features - features.mean(0)) / features.std(0), torch.tensor(data.target))
    train, validation = random_split(wine, (140, 38), torch.Generator().manual_seed(0))
    return DataLoader(train, batch_size=16, shuffle=True), DataLoader(validation, batch_size=38)


if __name__ == "__main__":
    Trainer().fit(*loaders(), epochs=20)
