"""Malignant or benign. `F.dropout` drops by default, in evaluation too: the same patient, another answer."""

from typing import Any

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.utils.data import Subset, TensorDataset


class Classifier(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(30, width)
        self.output = nn.Linear(width, 2)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        return self.output(F.dropout(torch.relu(self.hidden(features)), 0.3))


class TumourTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        data = load_breast_cancer()
        features = torch.tensor(data.data, dtype=torch.float32)
        features = (features - features[:455].mean(0)) / features[:455].std(0)
        self.patients = TensorDataset(features, torch.tensor(data.target))
        self.model = context.wrap_model(Classifier(context.get_hparam("width")))
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
