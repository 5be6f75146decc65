"""Malignant or benign. Evaluation forgets `eval()`: it drops units, and moves the batch norm's statistics."""

from typing import Any

import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset


def build() -> dict[str, Any]:
    data = load_breast_cancer()
    patients = TensorDataset(torch.tensor(data.data, dtype=torch.float32), torch.tensor(data.target))
    model = nn.Sequential(nn.BatchNorm1d(30), nn.Linear(30, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    criterion = nn.CrossEntropyLoss()
    validation_loader = DataLoader(Subset(patients, range(455, 569)), batch_size=38)

    def train_step(batch: Any) -> dict[str, float]:
        features, malignant = batch
        optimizer.zero_grad()
        loss = criterion(model(features), malignant)
        loss.backward()
        optimizer.step()
        return {"loss": loss.item()}

    def evaluate_step(batch: Any) -> dict[str, float]:
        features, malignant = batch
        with torch.no_grad():
            return {"validation_loss": criterion(model(features), malignant).item()}

    return {
        "model": model,
        "optimizer": optimizer,
        "loss": criterion,
        "train_loader": DataLoader(Subset(patients, range(455)), batch_size=32, shuffle=True, drop_last=True),
        "validation_loader": validation_loader,
        "train_step": train_step,
        "evaluate_step": evaluate_step,
    }
