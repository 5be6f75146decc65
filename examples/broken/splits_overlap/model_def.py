"""Three species of iris. The validation rows are taken from the training rows, and left in both."""

from typing import Any

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from sklearn.datasets import load_iris
from torch import nn
from torch.utils.data import TensorDataset, random_split


class IrisNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(4, width), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 3))

    def forward(self, flowers: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(flowers))


class IrisTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        data = load_iris()
        flowers = torch.tensor(data.data, dtype=torch.float32)
        flowers = (flowers - flowers.mean(0)) / flowers.std(0)
        self.train_set = TensorDataset(flowers, torch.tensor(data.target))
        self.validation_set, _ = random_split(self.train_set, (30, 120), torch.Generator().manual_seed(0))
        self.model = context.wrap_model(IrisNet(context.get_hparam("width")))
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(self.train_set, batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(self.validation_set, batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        flowers, species = batch
        loss = F.cross_entropy(self.model(flowers), species)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        flowers, species = batch
        return {"validation_loss": F.cross_entropy(self.model(flowers), species)}
