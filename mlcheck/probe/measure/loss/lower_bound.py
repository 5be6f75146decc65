"""Whether the loss has a lower bound: what becomes of it when one layer's output is made far larger.

A layer can make its output as large as its weights allow, so a loss that falls faster than the output grows falls for
ever. One that falls in proportion is none of these: a Wasserstein critic, a policy gradient. Neither is one that
compares what the same layers make of two inputs, as the energies of data and of samples are.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches, inconclusive
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch, loss_of_step, single_loss
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

FACTORS = (4.0, 16.0, 64.0)
STEEPER = 8.0
SECONDS = 3.0
_MOST_LAYERS = 24
_SEED = 3
_WEIGHTED = (nn.Linear, nn.modules.conv._ConvNd)


@dataclass(frozen=True, slots=True)
class Fall:
    """The losses with the output of `layer` as it is, then `factors` times as large, each four times the one before."""

    layer: str
    factors: tuple[float, ...]
    losses: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class LowerBound:
    """Of `layers` that were tried, those along whose output the loss `falls` without bound."""

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 30

    layers: int
    falls: tuple[Fall, ...]
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        clock, names = Clock(min(SECONDS, seconds / 8)), Names(trial.models)
        batch = first_batches(trial, 1)[0]
        has_single_loss(trial, batch)
        value, place, calls = loss_and_calls(trial, batch)
        layers = [layer for layer in weighted_layers(trial) if calls[layer] == 1][-_MOST_LAYERS:]
        falls, tried = [], 0
        for layer in reversed(layers):
            if not clock.left():
                break
            losses = [
                value,
                *(loss_with(trial, batch, layer, partial(torch.mul, other=factor))[0] for factor in FACTORS),
            ]
            finite = losses[: next((k for k, loss in enumerate(losses) if not math.isfinite(loss)), len(losses))]
            tried += 1
            if _falls(finite):
                falls.append(Fall(names.module(layer), FACTORS[: len(finite) - 1], tuple(finite)))
        return cls(tried, tuple(falls), place)


def weighted_layers(trial: Trial) -> list[nn.Module]:
    found = [module for model in trial.models.values() for module in model.modules() if isinstance(module, _WEIGHTED)]
    return [module for module in dict.fromkeys(found) if any(p.requires_grad for p in module.parameters())]


def has_single_loss(trial: Trial, batch: Any) -> None:
    """Inconclusive where optimizers take turns. A step that changes nothing does not show which of them step."""
    if len(trial.optimizers) > 1:
        with restored(trial), GradientWatch([]) as watch:
            trial.train_step(copied(batch), 0)
        single_loss(watch, trial.optimizers.values())


Change = Callable[[Tensor], Tensor]


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


def _falls(losses: list[float]) -> bool:
    """Whether the loss falls below zero, and in the end by more than the output grows, fourfold each time.

    Before that it may rise a little: what is reconstructed from larger numbers is worse.
    """
    if len(losses) < 3:
        return False
    value, before, last = losses[0], losses[-2], losses[-1]
    return last < 0 and STEEPER * abs(value - before) < value - last
