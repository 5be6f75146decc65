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

    `again` says that a model was given the very batch of the first step, and no other; `rich` that batches hold
    fractional numbers: one that is only counted by, where a step draws its own points, holds none.
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
        return cls(losses, others, place, _is_given_again(watch.calls, batches), rich)

    @property
    def ignores(self) -> bool:
        """Whether all losses agree bit for bit: zeros, which a margin makes of any batch, say nothing alone."""
        known = len(self.losses) == STEPS and all(math.isfinite(loss) for loss in self.losses)
        return known and self.losses == self.others and (self.again or all(self.losses))


def _is_given_again(calls: list[ModelCall], batches: list[Any]) -> bool:
    """Whether a large tensor of the first batch is an argument of every call, and none of those behind it of any.

    What is the same in all of them, a grid for one, is left out.
    """
    given = [[leaf for _, leaf in leaves((call.args, call.kwargs))] for call in calls]
    first, *behind = ([leaf for _, leaf in leaves(batch) if leaf.numel() > leaf.ndim] for batch in batches)
    later = [leaf for batch in behind for leaf in batch]
    own = [leaf for leaf in first if not _holds(later, leaf)]
    later = [leaf for leaf in later if not _holds(first, leaf)]
    again = bool(given) and all(any(_holds(own, one) for one in args) for args in given)
    return again and not any(_holds(later, one) for args in given for one in args)


def _holds(tensors: list[Tensor], one: Tensor) -> bool:
    return any(same_bits(one, beside(tensor, one)) for tensor in tensors)


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
