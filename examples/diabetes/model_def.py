"""Progression of diabetes a year on, a regression: columns of ten measurements to one number."""

from typing import Any

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import TensorDataset


class DiabetesTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        width = context.get_hparam("width")
        self.train_set, self.validation_set = diabetes()
        self.model = context.wrap_model(
            nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))
        )
        self.optimizer = context.wrap_optimizer(
            torch.optim.AdamW(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(self.train_set, batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(self.validation_set, batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        measurements, target = batch
        loss = F.mse_loss(self.model(measurements), target)
        self.context.backward(loss)
        self.context.step_optimizer(
            self.optimizer, clip_grads=lambda params: torch.nn.utils.clip_grad_norm_(params, max_norm=5.0)
        )
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        measurements, target = batch
        return {"validation_loss": F.mse_loss(self.model(measurements), target)}


def diabetes() -> tuple[TensorDataset, TensorDataset]:
    """Measurements (n, 10) and targets (n, 1), scaled by the training set's mean and deviation."""
    data = load_diabetes()
    train, validation = train_test_split(range(len(data.target)), test_size=0.2, random_state=0)

    def scaled(values: torch.Tensor) -> torch.Tensor:
        return ((values - values[train].mean(0)) / values[train].std(0)).float()

    measurements, target = scaled(torch.tensor(data.data)), scaled(torch.tensor(data.target).unsqueeze(1))
    return TensorDataset(measurements[train], target[train]), TensorDataset(
        measurements[validation], target[validation]
    )
