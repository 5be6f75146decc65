"""Malignant or benign. One patient of 569 has no measurement where the table had an empty cell: it came out as NaN."""

from typing import Any

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import Subset, TensorDataset


class TumourTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        width = context.get_hparam("width")
        self.patients = patients()
        self.model = context.wrap_model(nn.Sequential(nn.Linear(30, width), nn.ReLU(), nn.Linear(width, 2)))
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )

    def build_training_data_loader(self) -> DataLoader:
        train = Subset(self.patients, range(455))
        return DataLoader(train, batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(Subset(self.patients, range(455, 569)), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        features, malignant = batch
        loss = F.cross_entropy(self.model(features), malignant)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        features, malignant = batch
        return {"validation_loss": F.cross_entropy(self.model(features), malignant)}


def patients() -> TensorDataset:
    data = load_breast_cancer()
    features = torch.tensor(data.data, dtype=torch.float32)
    features = (features - features[:455].mean(0)) / features[:455].std(0)
    features[212, 27] = float("nan")
    return TensorDataset(features, torch.tensor(data.target))
