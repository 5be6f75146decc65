"""What the first run of a script shows of one of its loops over a loader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader

from mlcheck.trial.script.turns import Stack


@dataclass
class Sight:
    """What was seen of one loop: where it stands, its batches, steps and backward passes, models called, when.

    `trained` are the weights that optimizers stepped in it.
    """

    order: int
    loader: DataLoader[Any]
    stack: Stack
    batches: int = 0
    steps: int = 0
    backwards: int = 0
    trained: dict[int, torch.Tensor] = field(default_factory=dict)
    called: dict[int, nn.Module] = field(default_factory=dict)
    called_at: int = -1

    @property
    def trains(self) -> bool:
        return bool(self.steps or self.backwards)


def calls_one_of(called: Mapping[int, nn.Module], trained: Mapping[int, torch.Tensor]) -> bool:
    """Whether one of these modules has a weight that is trained; any will do where no optimizer was seen to step."""
    if not trained:
        return bool(called)
    return any(id(p) in trained for module in called.values() for p in module.parameters())
