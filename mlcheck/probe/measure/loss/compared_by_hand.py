"""What a loss that no function of torch computes depends on, beside what the models were given."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from torch import Tensor

from mlcheck.probe.measure.loss.loss_scene import LossScene
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.trial import Trial


def compared_by_hand(trial: Trial, batch: Any, inputs: tuple[str, ...], value: float) -> tuple[str, ...]:
    """The tensors of the batch that change the loss when samples exchange them: one number a sample, or several."""
    found = []
    for name, leaf in leaves(batch):
        several = leaf.ndim > 1 and leaf.is_floating_point()
        if name in inputs or not (several or has_one_a_sample(leaf)):
            continue
        with suppress(Exception):  # a program that insists on how its parts belong together
            if LossScene(trial, _exchanged(batch, leaf)).value != value:
                found.append(name)
    return tuple(found)


def has_one_a_sample(leaf: Tensor) -> bool:
    return leaf.ndim > 0 and leaf.numel() == len(leaf)


def _exchanged(batch: Any, leaf: Tensor) -> Any:
    return map_tensors(batch, lambda tensor: tensor.roll(1, 0) if tensor is leaf else tensor)
