"""Three species of iris. Each step waits for a metrics writer that was never started."""

import threading
from typing import Any

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from sklearn.datasets import load_iris
from torch import nn
from torch.utils.data import TensorDataset


class IrisTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.writer_is_ready = threading.Event()
        self.model = context.wrap_model(nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 3)))
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(iris(slice(0, None, 2)), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(iris(slice(1, None, 2)), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        flowers, species = batch
        loss = F.cross_entropy(self.model(flowers), species)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        self.writer_is_ready.wait()
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        flowers, species = batch
        return {"validation_loss": F.cross_entropy(self.model(flowers), species)}


def iris(rows: slice) -> TensorDataset:
    data = load_iris()
    return TensorDataset(torch.tensor(data.data[rows], dtype=torch.float32), torch.tensor(data.target[rows]))
