"""The frames that `ctc_loss` may spread a sample's labels over, and how many these labels need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.simplified import stilled
from mlcheck.trial.trial import Trial

BATCHES = 3
_NONE = "no ctc_loss was computed"


@dataclass(frozen=True, slots=True)
class LabelFrames:
    """Of `samples`, `short` have fewer frames than labels, with a blank between two labels that are alike.

    `frames` and `needed` are those of the sample that lacks most. `zeroed` says that an infinite loss counts as 0.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 6

    samples: int
    short: int
    frames: int
    needed: int
    zeroed: bool
    place: Location

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if "ctc_loss" in called else _NONE

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        watch = LossWatch()
        with stilled(trial), watch, suppress(Exception):  # the rehearsal tells of a step that raises
            for index, batch in enumerate(first_batches(trial, BATCHES)):
                trial.train_step(batch, index)
        if not watch.alignments:
            raise NotMeasured(_NONE)
        pairs = [pair for call in watch.alignments for pair in _pairs(call)]
        frames, needed = min(pairs, key=lambda pair: pair[0] - pair[1], default=(0, 0))
        short = sum(there < wanted for there, wanted in pairs)
        zeroed = all(call.options["zero_infinity"] for call in watch.alignments)
        return cls(len(pairs), short, frames, needed, zeroed, watch.alignments[0].place)


def _pairs(call: LossCall) -> Iterator[tuple[int, int]]:
    """For each sample the frames that it has and those that its labels need."""
    there, counts = (_lengths(call, name) for name in ("input_lengths", "target_lengths"))
    targets, begin = call.target.cpu(), 0
    for row, (frames, count) in enumerate(zip(there, counts)):
        labels = targets[row, :count] if targets.ndim == 2 else targets[begin : begin + count]
        begin += count
        yield frames, len(labels) + int((labels[1:] == labels[:-1]).sum())


def _lengths(call: LossCall, name: str) -> list[int]:
    given: Tensor = torch.as_tensor(call.options[name])
    return [int(length) for length in given.flatten()]
