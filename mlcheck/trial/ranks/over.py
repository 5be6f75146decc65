"""What a framework does for a program that runs on several ranks: wraps its models, deals out its batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn
from torch.nn.parallel import DistributedDataParallel


class OverRanks(DistributedDataParallel):
    """Its attributes are the model's, as in Determined."""

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)


def over_ranks(model: nn.Module) -> nn.Module:
    """Wrapped so that its gradients are averaged; a model without weights to train has none."""
    return OverRanks(model) if any(weight.requires_grad for weight in model.parameters()) else model


def is_wrapped(model: nn.Module) -> bool:
    return any(isinstance(module, DistributedDataParallel) for module in model.modules())


def inside(model: nn.Module) -> nn.Module:
    """The user's own model."""
    return model.module if isinstance(model, DistributedDataParallel) else model


class Dealt:
    """Every n-th batch of a loader, as many for each rank."""

    def __init__(self, loader: Any, rank: int, world: int) -> None:
        self._loader, self._rank, self._world = loader, rank, world

    def __iter__(self) -> Iterator[Any]:
        hand: list[Any] = []
        for batch in self._loader:
            hand.append(batch)
            if len(hand) == self._world:
                yield hand[self._rank]
                hand.clear()
