"""What the losses of the evaluation are given: whether rows that should be logits are chances."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import evaluated_batch
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.trial import Trial

FEW_ROWS = 8
_ROUNDING = 1e-5


@dataclass(frozen=True, slots=True)
class HeldOutLosses:
    """Of `calls` of cross_entropy in the evaluation of one batch, the places of those whose rows all sum to one."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 7

    calls: int
    of_chances: tuple[Location, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one batch, whatever the limit
        evaluate, batch = evaluated_batch(trial)
        watch = LossWatch()
        with watch:
            evaluate(copied(batch))
        calls = [call for call in watch.calls if call.kind == "cross_entropy"]
        return cls(len(calls), tuple(call.place for call in calls if _are_chances(call.input)))


def _are_chances(scores: Tensor) -> bool:
    """Whether every row of a score for each class is a distribution that is not the same for all."""
    if scores.ndim < 2 or scores.shape[1] < 2 or not scores.numel():
        return False
    rows = scores.detach().double().movedim(1, -1).flatten(0, -2)
    sums = bool((rows.sum(1) - 1).abs().max() < _ROUNDING) and bool((rows >= 0).all())
    return len(rows) >= FEW_ROWS and sums and not torch.allclose(rows, rows[:1].expand_as(rows))
