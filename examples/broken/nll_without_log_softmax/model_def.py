"""Three cultivars of wine. The loss wants log-probabilities and is given logits: it falls without end."""

from typing import Any

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from sklearn.datasets import load_wine
from torch import nn
from torch.utils.data import TensorDataset, random_split


class WineTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        data = load_wine()
        features = torch.tensor(data.data, dtype=torch.float32)
        features = (features - features.mean(0)) / features.std(0)
        self.train_set, self.validation_set = random_split(
            TensorDataset(features, torch.tensor(data.target)), (140, 38), torch.Generator().manual_seed(0)
        )
        width = context.get_hparam("width")
        self.model = context.wrap_model(nn.Sequential(nn.Linear(13, width), nn.Tanh(), nn.Linear(width, 3)))
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(self.train_set, batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(self.validation_set, batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        features, cultivar = batch
        output = self.model(features)
        loss = F.nll_loss(output, cultivar)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        features, cultivar = batch
        return {"validation_loss": F.nll_loss(self.model(features), cultivar)}
