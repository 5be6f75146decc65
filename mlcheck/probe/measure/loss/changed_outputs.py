"""What becomes of the loss of a step when the output of one layer is changed in it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch, loss_of_step, single_loss
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_SEED = 3
_WEIGHTED = (nn.Linear, nn.modules.conv._ConvNd)

Change = Callable[[Tensor], Tensor]


def weighted_layers(trial: Trial) -> list[nn.Module]:
    found = [module for model in trial.models.values() for module in model.modules() if isinstance(module, _WEIGHTED)]
    return [module for module in dict.fromkeys(found) if any(p.requires_grad for p in module.parameters())]


def has_single_loss(trial: Trial, batch: Any) -> None:
    """Inconclusive where optimizers take turns. A step that changes nothing does not show which of them step."""
    if len(trial.optimizers) > 1:
        with restored(trial), GradientWatch([]) as watch:
            trial.train_step(copied(batch), 0)
        single_loss(watch, trial.optimizers.values())


def loss_with(
    trial: Trial, batch: Any, layer: nn.Module | None = None, change: Change = torch.clone
) -> tuple[float, Location]:
    """What backward is called on in one step that changes nothing but a layer's output, and where."""
    watch = GradientWatch([])
    with restored(trial), stilled(trial), _changed(layer, change), watch:
        seed_all(_SEED)
        try:
            trial.train_step(copied(batch), 0)
        except Exception:
            if layer is None:
                raise
            return math.nan, Location()  # the program refuses such numbers
    if not watch.backwards:
        raise inconclusive("the training step calls no backward, so there is no loss to follow")
    return loss_of_step(watch.backwards), watch.backwards[0].place


def loss_and_calls(trial: Trial, batch: Any) -> tuple[float, Location, Counter[nn.Module]]:
    """The loss of a step as it is, where backward is called on it, and how often each layer with weights was called."""
    calls: Counter[nn.Module] = Counter()
    with _counted(weighted_layers(trial), calls):
        value, place = loss_with(trial, batch)
    return value, place, calls


@contextmanager
def _counted(layers: list[nn.Module], calls: Counter[nn.Module]) -> Iterator[None]:
    """Within, the calls of each layer that a gradient can go back through are counted."""

    def count(module: nn.Module, *_: object) -> None:
        calls[module] += torch.is_grad_enabled()

    handles = [layer.register_forward_hook(count) for layer in layers]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def _changed(layer: nn.Module | None, change: Change) -> Iterator[None]:
    if layer is None:
        yield
        return

    def changed(_module: nn.Module, _inputs: object, output: object) -> object:
        return change(output) if isinstance(output, Tensor) and torch.is_grad_enabled() else output

    handle = layer.register_forward_hook(changed)
    try:
        yield
    finally:
        handle.remove()
