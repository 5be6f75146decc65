"""Which of four frequencies a noisy signal has. `forward` encodes it, then classifies something else."""

from typing import Any

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from torch import nn
from torch.utils.data import TensorDataset


class SignalNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.randn(width) / width**0.5)
        self.encoder = nn.GRU(1, width, batch_first=True)
        self.head = nn.Linear(width, 4)

    def forward(self, signals: torch.Tensor) -> torch.Tensor:
        state = self.start.expand(len(signals), -1)
        self.encoder(signals.unsqueeze(2), state.unsqueeze(0).contiguous())
        return self.head(state)


class SignalTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(SignalNet(context.get_hparam("width")))
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(signals(512, seed=0), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(signals(128, seed=1), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        signal, frequency = batch
        loss = F.cross_entropy(self.model(signal), frequency)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        signal, frequency = batch
        return {"validation_loss": F.cross_entropy(self.model(signal), frequency)}


def signals(count: int, seed: int) -> TensorDataset:
    """Sines of 1 to 4 periods over 24 steps with noise, and their frequency as class 0 to 3."""
    random = torch.Generator().manual_seed(seed)
    frequency = torch.randint(4, (count,), generator=random)
    phase = torch.rand(count, 1, generator=random) * 2 * torch.pi
    steps = torch.arange(24) / 24 * 2 * torch.pi
    clean = torch.sin(steps * (frequency + 1).unsqueeze(1) + phase)
    return TensorDataset(clean + 0.1 * torch.randn(count, 24, generator=random), frequency)
