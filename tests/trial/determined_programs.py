"""A trial of Determined with one parameter, and what its training comes to.

The model is y = w * x with w = 0 at the start, the data are pairs (x, 1) and the loss is (1 - w x)^2, so that
one step of SGD with rate r on x adds 2 r x (1 - w x).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlcheck.trial.trial import Trial

HEAD = """
import torch
import determined as det
from determined import pytorch
from determined.pytorch import DataLoader, LRScheduler, PyTorchCallback, PyTorchTrial, PyTorchTrialContext

class One(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.zeros(1))
    def forward(self, x):
        return self.w * x

class Base(PyTorchTrial):
    rate, rows, batch_size = 0.1, 6, 1
    def __init__(self, context: PyTorchTrialContext):
        self.context = context
        self.model = context.wrap_model(One())
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=self.rate))
    def loader(self):
        x = torch.arange(1.0, self.rows + 1)
        return DataLoader(torch.utils.data.TensorDataset(x, torch.ones(self.rows)), batch_size=self.batch_size)
    def build_training_data_loader(self):
        return self.loader()
    def build_validation_data_loader(self):
        return self.loader()
    def loss(self, batch):
        x, y = batch
        return (y - self.model(x)).square().mean()
    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}
    def evaluate_batch(self, batch):
        return {"val_loss": self.loss(batch)}
"""
Load = Callable[..., Trial]


def train(trial: Trial, steps: int, start: int = 0) -> list[dict[str, Any]]:
    """Batches from the loader, epoch after epoch, as the harness takes them."""
    metrics: list[dict[str, Any]] = []
    while len(metrics) < steps:
        for batch in trial.train_batches():
            metrics.append(dict(trial.train_step(batch, start + len(metrics))))
            if len(metrics) == steps:
                break
    return metrics


def weight(trial: Trial) -> float:
    return trial.models["model"].w.item()  # type: ignore[union-attr, operator]


def by_hand(xs: list[float], rates: list[float], w: float = 0.0) -> float:
    for x, rate in zip(xs, rates, strict=True):
        w += 2 * rate * x * (1 - w * x)
    return w
