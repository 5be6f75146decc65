"""Three cultivars of wine, 89 bottles; the last, incomplete batch of 256 is dropped, and it is the only one."""

from typing import Any

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import TensorDataset


class WineTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 3)))
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )

    def build_training_data_loader(self) -> DataLoader:
        size = self.context.get_per_slot_batch_size()
        return DataLoader(wine(slice(0, None, 2)), batch_size=size, shuffle=True, drop_last=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(wine(slice(1, None, 2)), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        features, cultivar = batch
        loss = F.cross_entropy(self.model(features), cultivar)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        features, cultivar = batch
        return {"validation_loss": F.cross_entropy(self.model(features), cultivar)}


def wine(rows: slice) -> TensorDataset:
    data = load_wine()
    return TensorDataset(torch.tensor(data.data[rows], dtype=torch.float32), torch.tensor(data.target[rows]))
