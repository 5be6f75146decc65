"""Whether a training step goes by the batch it is given: steps from the same state, each on another batch."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, starmap
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModelCall, ModuleWatch
from mlcheck.probe.measure.training.gradients import GradientWatch, loss_of_step
from mlcheck.probe.measure.tree import beside, copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial

STEPS = 3  # one that trains on the batch before, as a prefetcher does, shows the difference a step later
_SEED = 11


@dataclass(frozen=True, slots=True)
class OtherBatches:
    """The losses of steps after a first one, and those of `others` from the same state, on other batches each.

    `again` says that a model was given the very batch of the first step, `rich` that batches hold fractional numbers:
    one that is only counted by, where a step draws its own points, holds none.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 8

    losses: tuple[float, ...]
    others: tuple[float, ...]
    place: Location
    again: bool = False
    rich: bool = True

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - seven steps, whatever the limit
        if not trial.repeats_batches or trial.draws_batches:
            raise NotMeasured("the program draws its batches itself")
        batches = [copied(batch) for batch in first_batches(trial, STEPS + 1)]
        if len(batches) < STEPS + 1 or any(starmap(_alike, combinations(batches, 2))):
            raise NotMeasured(f"the training data has no {STEPS + 1} batches that differ")
        seed_all(_SEED)
        trial.train_step(copied(batches[0]), 0)
        watch = ModuleWatch()
        with watch:
            losses, place = _losses(trial, batches[1:])
        others, _ = _losses(trial, [batches[-1], *batches[1:-1]])
        first = [leaf for _, leaf in leaves(batches[0])]
        rich = any(leaf.is_floating_point() and bool((leaf != leaf.round()).any()) for leaf in first)
        return cls(losses, others, place, _is_given(watch.calls, first), rich)

    @property
    def ignores(self) -> bool:
        """Whether all losses agree bit for bit, and are no zeros, which a margin makes of any batch."""
        known = len(self.losses) == STEPS and all(math.isfinite(loss) and loss for loss in self.losses)
        return known and self.losses == self.others


def _is_given(calls: list[ModelCall], first: list[Tensor]) -> bool:
    """Whether a tensor of the first batch, of some size, is an argument of every call."""
    given = [[leaf for _, leaf in leaves((call.args, call.kwargs))] for call in calls]
    large = [leaf for leaf in first if leaf.numel() > len(leaf.shape)]
    return bool(given) and all(
        any(same_bits(one, beside(leaf, one)) for one in args for leaf in large) for args in given
    )


def _losses(trial: Trial, batches: list[Any]) -> tuple[tuple[float, ...], Location]:
    """What backward is called on in each of these steps, from the state as it is."""
    found, place = [], Location()
    with restored(trial):
        seed_all(_SEED)
        for index, batch in enumerate(batches, 1):
            with GradientWatch([]) as watch:
                trial.train_step(copied(batch), index)
            if not watch.backwards:
                raise NotMeasured("the training step calls no backward")
            found.append(loss_of_step(watch.backwards))
            place = watch.backwards[0].place
    return tuple(found), place


def _alike(one: Any, other: Any) -> bool:
    """Whether two batches hold the same numbers; batches without tensors count as alike."""
    mine, theirs = dict(leaves(one)), dict(leaves(other))
    shapes = {name: tensor.shape for name, tensor in mine.items()}
    if shapes != {name: tensor.shape for name, tensor in theirs.items()}:
        return not mine
    return all(same_bits(mine[name], theirs[name].to(torch.device(mine[name].device))) for name in mine)
