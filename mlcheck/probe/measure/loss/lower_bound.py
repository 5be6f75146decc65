"""Whether the loss has a lower bound: what becomes of it when one layer's output is made far larger.

A layer can make its output as large as its weights allow, so a loss that falls faster than the output grows falls for
ever. One that falls in proportion is none of these: a Wasserstein critic, a policy gradient. Neither is one that
compares what the same layers make of two inputs, as the energies of data and of samples are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import torch

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches
from mlcheck.probe.measure.loss.changed_outputs import has_single_loss, loss_and_calls, loss_with, weighted_layers
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.trial.trial import Trial

FACTORS = (4.0, 16.0, 64.0)
STEEPER = 8.0
SECONDS = 3.0
_MOST_LAYERS = 24


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


def _falls(losses: list[float]) -> bool:
    """Whether the loss falls below zero, and in the end by more than the output grows, fourfold each time.

    Before that it may rise a little: what is reconstructed from larger numbers is worse.
    """
    if len(losses) < 3:
        return False
    value, before, last = losses[0], losses[-2], losses[-1]
    return last < 0 and STEEPER * abs(value - before) < value - last
