"""Handwritten digits. The network ends in a softmax, and the loss takes another one of it."""

from typing import Any

import torch
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from network import DigitNet
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import TensorDataset


class DigitsTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.train_set, self.validation_set = digits()
        self.model = context.wrap_model(DigitNet(context.get_hparam("channels")))
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )
        self.criterion = nn.CrossEntropyLoss()

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(self.train_set, batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(self.validation_set, batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, torch.Tensor]:
        images, labels = batch
        loss = self.criterion(self.model(images), labels)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, torch.Tensor]:
        images, labels = batch
        logits = self.model(images)
        return {
            "validation_loss": self.criterion(logits, labels),
            "accuracy": (logits.argmax(dim=1) == labels).float().mean(),
        }


def digits() -> tuple[TensorDataset, TensorDataset]:
    """Training and validation images, both scaled by the mean and deviation of the training set."""
    data = load_digits()
    images = torch.tensor(data.images, dtype=torch.float32).unsqueeze(1)
    labels = torch.tensor(data.target)
    train, validation = train_test_split(range(len(labels)), test_size=0.2, stratify=labels, random_state=0)
    mean, std = images[train].mean(), images[train].std()
    images = (images - mean) / std
    return TensorDataset(images[train], labels[train]), TensorDataset(images[validation], labels[validation])
