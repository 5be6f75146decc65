"""Is the largest digit of a sequence in its first half? The attention is normalised over the wrong dimension."""

from typing import Any

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from torch import nn
from torch.utils.data import TensorDataset


class AttentionNet(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.digit = nn.Embedding(10, width)
        self.position = nn.Embedding(8, width)
        self.score = nn.Linear(width, 1)
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 2))

    def forward(self, sequences: torch.Tensor) -> torch.Tensor:
        tokens = self.digit(sequences) + self.position(torch.arange(8, device=sequences.device))
        weights = torch.softmax(self.score(tokens), dim=0)  # 0 is the batch; the sequence is 1
        return self.head((weights * tokens).sum(dim=1))


class WordsTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(AttentionNet(context.get_hparam("width")))
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(sequences(1024, seed=0), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(sequences(256, seed=1), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        sequence, early = batch
        loss = F.cross_entropy(self.model(sequence), early)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        sequence, early = batch
        return {"validation_loss": F.cross_entropy(self.model(sequence), early)}


def sequences(count: int, seed: int) -> TensorDataset:
    """Eight digits each, and whether the largest stands among the first four."""
    digits = torch.randint(10, (count, 8), generator=torch.Generator().manual_seed(seed))
    return TensorDataset(digits, (digits.argmax(dim=1) < 4).long())
