"""The user's steps by the recognised loss alone, then by all of it: does what is added take the input away again?

A model that has learnt to use its input is the kindest start for the whole loss. Where that then drives it to an output
that is the same for every input, the minimum it aims at needs none (a posterior that has collapsed).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches, inconclusive, repeated_batches
from mlcheck.probe.measure.loss.floors import mean_loss
from mlcheck.probe.measure.loss.loss_scene import LossScene, known_part
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.interventions import Reach as Reached
from mlcheck.probe.measure.model.interventions import permuter
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.simplified import replaced, stilled
from mlcheck.probe.measure.tree import batch_size, copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

STEPS = 150
FEW = 40
SECONDS = 4.0
BATCHES = 2
SMALL = 1e-3


@dataclass(frozen=True, slots=True)
class Use:
    """The loss of a model with the inputs of its samples, and with those of other samples."""

    own: float
    exchanged: float

    @property
    def worth(self) -> float:
        return self.exchanged - self.own


@dataclass(frozen=True, slots=True)
class AddedTerm:
    """What the input is worth to a model after `steps` by `kind` alone, and after as many more by the whole loss."""

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 190

    kind: str
    place: Location
    steps: int
    alone: Use
    whole: Use

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        batches = first_batches(trial, BATCHES)
        scene = LossScene(trial, batches[0])
        if scene.ratio is None or scene.ratio < SMALL or scene.backwards != 1 or len(trial.optimizers) != 1:
            raise NotMeasured("nothing is added to a loss of torch.nn.functional")
        size = batch_size(batches[0])
        if size is None or not trial.repeats_batches:
            raise inconclusive("the samples of a batch cannot be exchanged, or no batch is given twice")
        kind, place = scene.seen[0][0].kind, scene.seen[0][0].place
        with restored(trial):
            steps, alone = _trained(trial, batches, min(SECONDS, seconds / 8), STEPS, only=True)
            if steps < FEW:
                raise inconclusive(f"there was time for {steps} steps only")
            _, whole = _trained(trial, batches, seconds, steps, only=False)
        return cls(kind, place, steps, alone, whole)


def _trained(trial: Trial, batches: list[Any], seconds: float, most: int, only: bool) -> tuple[int, Use]:
    clock, steps = Clock(seconds), 0
    seed_all(0)
    for batch in islice(repeated_batches(trial), most):
        with _loss_alone() if only else _nothing():
            trial.train_step(copied(batch), steps)
        steps += 1
        if not clock.left():
            break
    uses = [(_loss(trial, batch, False), _loss(trial, batch, True)) for batch in batches]
    return steps, Use(sum(own for own, _ in uses) / len(uses), sum(other for _, other in uses) / len(uses))


@contextmanager
def _nothing() -> Iterator[None]:
    yield


@contextmanager
def _loss_alone() -> Iterator[None]:
    """While entered, backward follows the recognised losses alone, with the factors that they enter by."""
    original, watch = torch.autograd.backward, LossWatch(keep_results=True)

    def backward(root: Any, *args: Any, **kwargs: Any) -> None:
        known = known_part(root, watch.calls) if isinstance(root, Tensor) else None
        original(root if known is None else known, *args, **kwargs)

    with replaced(torch.autograd, "backward", backward), watch:
        yield


def _loss(trial: Trial, batch: Any, exchange: bool) -> float:
    """The recognised losses of one step that changes nothing. Raises NotMeasured where no input can be exchanged."""
    reached = Reached(permuter(batch_size(batch) or 0))
    watch, modules = LossWatch(), ModuleWatch(reached if exchange else None)
    with restored(trial), stilled(trial), watch, modules:
        seed_all(0)
        trial.train_step(copied(batch), 0)
    if (exchange and not reached.happened) or not watch.calls:
        raise NotMeasured("no model is given tensors of one row a sample")
    return sum(mean_loss(call) for call in watch.calls)
