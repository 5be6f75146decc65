"""What a few steps of the user's own loop did with one parameter."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from mlcheck.probe.measure.training.gradient_trace import GradientTrace

ENOUGH_UPDATES = 3


@dataclass(slots=True)
class ParameterStory:
    """What the steps did with one parameter.

    `influences` says whether the loss changed when the parameter was changed: None where that cannot be told. Where
    gradients arrive and all are zeros while others' are not, it was changed by a twentieth of its size.
    `under_no_grad` is about the module that owns it. `rounded` says that it changes at ten thousand times its learning
    rate: its updates are there and smaller than its own rounding. `waits` says that it is all zeros, and moves the loss
    only together with others that are: the gradient of each is a multiple of another one.
    """

    name: str
    model: str
    elements: int
    requires_grad: bool
    optimizers: tuple[str, ...]
    learning_rate: float
    trace: GradientTrace
    changed: bool
    under_no_grad: bool
    influences: bool | None = None
    rounded: bool = False
    waits: bool = False
    dtype: torch.dtype = torch.float32

    @property
    def is_flat(self) -> bool:
        """Whether gradients arrived, step by step, and not one was other than zeros."""
        return self.trace.arrivals >= ENOUGH_UPDATES and not self.trace.nonzero

    @property
    def stuck(self) -> bool:
        """Whether it was given gradients and steps and is what it was."""
        return bool(self.trace.applied or self.trace.lost) and not self.changed and not self.trace.changed
