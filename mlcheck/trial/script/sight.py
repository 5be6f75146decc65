"""What the first run of a script shows of one of its loops over a loader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import nn
from torch.utils.data import DataLoader

from mlcheck.trial.script.turns import Stack


@dataclass
class Sight:
    """What was seen of one loop: where it stands, its batches, steps and backward passes, models called, when."""

    order: int
    loader: DataLoader[Any]
    stack: Stack
    batches: int = 0
    steps: int = 0
    backwards: int = 0
    called: dict[int, nn.Module] = field(default_factory=dict)
    called_at: int = -1

    @property
    def trains(self) -> bool:
        return bool(self.steps or self.backwards)
