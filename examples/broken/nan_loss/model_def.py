"""Handwritten digits on a logarithmic scale; empty pixels are zero, and their logarithm is not a number to learn from."""

from typing import Any

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Subset, TensorDataset


class DigitNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.layers(torch.log(pixels))


class DigitsTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        data = load_digits()
        self.digits = TensorDataset(torch.tensor(data.data, dtype=torch.float32) / 16, torch.tensor(data.target))
        self.model = context.wrap_model(DigitNet(context.get_hparam("width")))
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )

    def build_training_data_loader(self) -> DataLoader:
        train = Subset(self.digits, range(1437))
        return DataLoader(train, batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(Subset(self.digits, range(1437, 1797)), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        pixels, labels = batch
        loss = F.cross_entropy(self.model(pixels), labels)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        pixels, labels = batch
        return {"validation_loss": F.cross_entropy(self.model(pixels), labels)}
