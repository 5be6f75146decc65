"""Takes the input away from a model, or gives it that of other samples, while the user's loop runs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from mlcheck.probe.measure.modules import Arguments, Intervention
from mlcheck.probe.measure.tree import leaves, map_tensors

_SEED = 0


class Reach:
    """An intervention that remembers whether it changed anything."""

    def __init__(self, intervene: Intervention) -> None:
        self._intervene = intervene
        self.happened = False

    def __call__(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        changed = self._intervene(module, args, kwargs)
        before, after = leaves((args, kwargs)), leaves(changed)
        self.happened |= any(old is not new for (_, old), (_, new) in zip(before, after))
        return changed


def zeroed(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    return map_tensors((args, kwargs), lambda t: t if t.requires_grad else torch.zeros_like(t))  # type: ignore[no-any-return]


def permuter(samples: int) -> Intervention:
    """Deals the inputs of a call out to other samples, differently every time."""
    generator = torch.Generator().manual_seed(_SEED)

    def permute(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        order = torch.randperm(samples, generator=generator)

        def dealt(tensor: Tensor) -> Tensor:
            fits = not tensor.requires_grad and tensor.ndim and tensor.shape[0] == samples
            return tensor[order.to(tensor.device)] if fits else tensor

        return map_tensors((args, kwargs), dealt)  # type: ignore[no-any-return]

    return permute
