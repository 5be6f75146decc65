"""Whose target each prediction is compared with: one sample's is exchanged, and whose gradient changes is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches
from mlcheck.probe.measure.gradients import GradientWatch
from mlcheck.probe.measure.losses import LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import batch_size, copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial

ROWS = 5
_FEW = 3
_SECONDS = 4.0


@dataclass(frozen=True, slots=True)
class Strayed:
    """A tensor of the batch whose row `own` alone decides the gradient of the prediction in row `reached`."""

    name: str
    own: int
    reached: int
    asked: int


@dataclass(frozen=True, slots=True)
class Pairing:
    """Tensors of a batch whose rows go with other samples' predictions, none with their own, of `looked_at`."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 30

    strayed: tuple[Strayed, ...]
    looked_at: int
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if not trial.repeats_batches:
            raise NotMeasured("the program draws its batches itself: none can be given to it twice")
        batch = first_batches(trial, 1)[0]
        size = batch_size(batch)
        if size is None or size < 2 * ROWS:
            raise NotMeasured("the batch has too few samples side by side")
        clock, before = Clock(min(_SECONDS, seconds / 10)), _gradients(trial, batch, size)
        if not before.rows:
            raise NotMeasured("no gradient of a prediction with one row a sample was seen")
        names = [name for name, tensor in leaves(batch) if tensor.ndim and len(tensor) == size]
        found: list[Strayed | None] = []
        for name in names:
            with suppress(Exception):  # a program may refuse a sample that is made of two
                found.append(_astray(trial, batch, name, before, clock))
        return cls(tuple(one for one in found if one), len(found), before.place)


@dataclass(frozen=True, slots=True)
class _Gradients:
    """Those that came back to the models' outputs with a row for each sample, in the order of the calls."""

    rows: list[Tensor]
    place: Location

    def changed(self, other: _Gradients) -> set[int] | None:
        """The rows that are not the same in both; None where the two are of other shapes."""
        if [mine.shape for mine in self.rows] != [theirs.shape for theirs in other.rows]:
            return None
        return {
            row
            for mine, theirs in zip(self.rows, other.rows)
            for row in range(len(mine))
            if not same_bits(mine[row], theirs[row])
        }


def _astray(trial: Trial, batch: Any, name: str, before: _Gradients, clock: Clock) -> Strayed | None:
    """The first row that decides another's gradient, where this is so of all rows asked about; None otherwise."""
    found: list[tuple[int, int]] = []
    for row, exchanged in _exchanged(batch, name):
        changed = before.changed(_gradients(trial, exchanged, len(dict(leaves(batch))[name])))
        if changed is None or row in changed or len(changed) > 1 or not clock.left():
            return None
        found += [(row, reached) for reached in changed]
    return Strayed(name, *found[0], len(found)) if len(found) >= _FEW else None


def _exchanged(batch: Any, name: str) -> Iterator[tuple[int, Any]]:
    """Batches in which one row of this tensor is another's, which differs."""
    tensor = dict(leaves(batch))[name]
    for row in torch.linspace(1, len(tensor) - 2, ROWS).long().tolist():
        donor = next((other for other in range(len(tensor)) if not same_bits(tensor[other], tensor[row])), None)
        if donor is not None:
            changed = copied(batch)
            dict(leaves(changed))[name].data[row] = tensor[donor]
            yield row, changed


def _gradients(trial: Trial, batch: Any, size: int) -> _Gradients:
    seen: list[Tensor] = []

    def reply(output: Any) -> Any:
        for _, tensor in leaves(output):
            if tensor.requires_grad and tensor.ndim and len(tensor) == size:
                seen.append(_gradient_of(tensor))
        return output

    watch = GradientWatch([])
    with restored(trial), stilled(trial), LossWatch(keep_dropout=False), watch, ModuleWatch(reply=reply):
        seed_all(0)
        trial.train_step(copied(batch), 0)
    place = watch.backwards[0].place if watch.backwards else Location()
    return _Gradients(seen, place)


def _gradient_of(tensor: Tensor) -> Tensor:
    """Filled when the gradient comes; zeros until then."""
    kept = torch.zeros_like(tensor)

    def keep(gradient: Tensor) -> None:
        kept.copy_(gradient)

    tensor.register_hook(keep)  # type: ignore[no-untyped-call]
    return kept
