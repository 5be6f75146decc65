"""Handwritten digits, read one file at a time; the file of item 17 is damaged."""

from typing import Any

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset


class DigitFiles(Dataset[tuple[torch.Tensor, int]]):
    def __init__(self, first: int, last: int) -> None:
        data = load_digits()
        self.images, self.labels = data.images[first:last], data.target[first:last]

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        if index == 17:
            raise OSError("image file is truncated: digits/00017.png")
        return torch.tensor(self.images[index], dtype=torch.float32).flatten() / 8 - 1, int(self.labels[index])


class DigitsTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)))
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(DigitFiles(0, 1437), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(DigitFiles(1437, 1797), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        pixels, labels = batch
        loss = F.cross_entropy(self.model(pixels), labels)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        pixels, labels = batch
        return {"validation_loss": F.cross_entropy(self.model(pixels), labels)}
