"""Three cultivars of wine, with the program's own training step: it is the one that mlcheck drives."""

from typing import Any

import torch
import torch.nn.functional as F
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class WineNet(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.hidden = nn.Linear(13, width)
        self.norm = nn.BatchNorm1d(width)
        self.dropout = nn.Dropout(0.2)
        self.output = nn.Linear(width, 3)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        hidden = self.dropout(torch.relu(self.norm(self.hidden(features))))
        return F.log_softmax(self.output(hidden), dim=1)


def build() -> dict[str, Any]:
    model = WineNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    train, validation = wine()

    def train_step(batch: Any) -> dict[str, float]:
        features, cultivar = batch
        optimizer.zero_grad()
        loss = F.nll_loss(model(features), cultivar)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=5.0)
        optimizer.step()
        return {"loss": loss.item()}

    @torch.no_grad()
    def evaluate_step(batch: Any) -> dict[str, float]:
        model.eval()
        features, cultivar = batch
        loss = F.nll_loss(model(features), cultivar)
        model.train()
        return {"validation_loss": loss.item()}

    return {
        "model": model,
        "optimizer": optimizer,
        "train_loader": DataLoader(train, batch_size=16, shuffle=True, drop_last=True),
        "validation_loader": DataLoader(validation, batch_size=16),
        "train_step": train_step,
        "evaluate_step": evaluate_step,
    }


def wine() -> tuple[TensorDataset, TensorDataset]:
    """Training and validation bottles, both scaled by the mean and deviation of the training set."""
    data = load_wine()
    features, cultivar = torch.tensor(data.data, dtype=torch.float32), torch.tensor(data.target)
    train, validation = train_test_split(range(len(cultivar)), test_size=0.2, stratify=cultivar, random_state=0)
    features = (features - features[train].mean(0)) / features[train].std(0)
    return TensorDataset(features[train], cultivar[train]), TensorDataset(features[validation], cultivar[validation])
