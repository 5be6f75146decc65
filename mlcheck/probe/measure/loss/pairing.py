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
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.probe.measure.tree import batch_size, copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial

ROWS = 5
_FEW = 3
_SECONDS = 4.0
_MOST_PLACES = 512


@dataclass(frozen=True, slots=True)
class Strayed:
    """A tensor of the batch whose row `own` alone decides the gradient of the prediction in row `reached`.

    So it is of `astray` rows of those `asked` about; any other stays where it is when samples are put in order.
    Of `places` a row, where it is above 1, the numbers count the places of all rows: those of one row are exchanged.
    `together` counts the places that one of them reaches, all of other rows, where these are several.
    """

    name: str
    own: int
    reached: int
    asked: int
    astray: int
    places: int = 1
    together: int = 1


@dataclass(frozen=True, slots=True)
class Pairing:
    """Tensors of a batch whose rows go with other samples' predictions, none with their own, of `looked_at`."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 16

    strayed: tuple[Strayed, ...]
    looked_at: int
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if not trial.repeats_batches:
            raise NotMeasured("the program draws its batches itself: none can be given to it twice")
        batch = first_batches(trial, 1)[0]
        size = batch_size(batch)
        several = [name for name, tensor in leaves(batch) if tensor.ndim == 2 and 1 < tensor.shape[1] <= _MOST_PLACES]
        if size is None or (size < 2 * ROWS and not several):
            raise NotMeasured("the batch has too few samples side by side")
        clock, before = Clock(min(_SECONDS, seconds / 10)), _gradients(trial, batch, size)
        if not before.rows:
            raise NotMeasured("no gradient of a prediction with one row a sample was seen")
        names = [name for name, tensor in leaves(batch) if tensor.ndim and len(tensor) == size >= 2 * ROWS]
        found: list[Strayed | None] = []
        for name in names:
            with suppress(Exception):  # a program may refuse a sample that is made of two
                found.append(_astray(trial, batch, name, before, clock))
        for name in several if not any(found) else ():
            with suppress(Exception):
                found.append(_scattered(trial, batch, name, size, clock))
        return cls(tuple(one for one in found if one), len(found), before.place)


def _scattered(trial: Trial, batch: Any, name: str, size: int, clock: Clock) -> Strayed | None:
    """A place of a row that decides the gradient of another one, and of yet another under other random numbers.

    What is shifted by one place, or read backwards, decides the same one each time. What was given another shape before
    the loss decides several, each time of rows that are not its own.
    """
    tensor = dict(leaves(batch))[name]
    found: list[tuple[int, int]] = []
    for own, changed in _changed_places(batch, name):
        reached = [_reached(trial, batch, changed, size, tuple(tensor.shape), seed) for seed in (0, 1, 2)]
        if any(len(one) > 1 for one in reached) and not found:
            return _in_other_rows(trial, batch, name, size, clock)
        if any(len(one) > 1 for one in reached) or all(own in one for one in reached) or not clock.left():
            return None
        found += [(own, other) for one in reached for other in one if other != own]
        if len({frozenset(one) for one in reached}) == 1:
            return None
    return Strayed(name, *found[0], len(found), len(found), tensor.shape[1]) if len(found) >= _FEW else None


def _in_other_rows(trial: Trial, batch: Any, name: str, size: int, clock: Clock) -> Strayed | None:
    """A place that decides the gradients of several others, none of its own row; by chance they may be near."""
    tensor = dict(leaves(batch))[name]
    asked, found = 0, list[tuple[int, set[int]]]()
    said = _gradients(trial, batch, size).outputs
    for own, changed in _changed_places(batch, name):
        if not all(map(same_bits, said, _gradients(trial, changed, size).outputs)):
            return None  # it is read by a model, which may put samples in an order of its own
        reached = _reached(trial, batch, changed, size, tuple(tensor.shape), 0)
        asked += 1
        if len(reached) > 1 and own // tensor.shape[1] not in {place // tensor.shape[1] for place in reached}:
            found.append((own, reached))
        if not clock.left():
            return None
    if len(found) < _FEW:
        return None
    own, reached = found[0]
    return Strayed(name, own, min(reached), asked, len(found), tensor.shape[1], len(reached))


def _changed_places(batch: Any, name: str) -> Iterator[tuple[int, Any]]:
    """Batches in which one place of this tensor holds another number of its row, at distances that are not alike."""
    tensor = dict(leaves(batch))[name]
    drawn = torch.randperm(max(0, tensor.numel() - 2), generator=torch.Generator().manual_seed(0))
    for own in (1 + drawn[:ROWS]).tolist():
        changed = copied(batch)
        values = dict(leaves(changed))[name].data.view(-1)
        row = values.view(len(tensor), -1)[own // tensor.shape[1]]
        other = row[row != values[own]]
        if len(other):
            values[own] = other[0]
            yield own, changed


def _reached(trial: Trial, batch: Any, changed: Any, size: int, shape: tuple[int, ...], seed: int) -> set[int]:
    """The places whose gradient the change reaches, counted through all rows, of outputs that have such places."""
    pairs = zip(_gradients(trial, batch, size, seed).rows, _gradients(trial, changed, size, seed).rows, strict=True)
    flat = [(a.flatten(0, 1), b.flatten(0, 1)) for a, b in pairs if tuple(a.shape[:2]) == shape]
    return {place for a, b in flat for place in range(len(a)) if not same_bits(a[place], b[place])}


@dataclass(frozen=True, slots=True)
class _Gradients:
    """Those that came back to the models' outputs with a row for each sample, in the order of the calls; and these."""

    rows: list[Tensor]
    outputs: list[Tensor]
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
    """The first row that decides another's gradient, where this is so of all rows asked about but one; or None."""
    found: list[tuple[int, int]] = []
    size = len(dict(leaves(batch))[name])
    for row, exchanges in _exchanged(batch, name):
        for exchanged in exchanges:
            changed = before.changed(_gradients(trial, exchanged, size))
            if changed is None or len(changed) > 1 or not clock.left():
                return None
            found += [(row, reached) for reached in changed]
            if changed:
                break
    astray = [(row, reached) for row, reached in found if row != reached]
    if len(astray) < max(_FEW, len(found) - 1):
        return None
    return Strayed(name, *astray[0], len(found), len(astray))


def _exchanged(batch: Any, name: str) -> Iterator[tuple[int, Iterator[Any]]]:
    """Batches in which one row of this tensor is another's, which differs: any first, then the lowest and the highest.

    The gradient of an absolute or a hinge loss is a sign: it stays with another number on the same side.
    """
    tensor = dict(leaves(batch))[name]
    means = tensor.double().flatten(1).mean(1) if tensor.ndim > 1 else tensor.double()
    outermost = [int(means.argmin()), int(means.argmax())]
    for row in torch.linspace(1, len(tensor) - 2, ROWS).long().tolist():
        others = [other for other in (*range(len(tensor)), *outermost) if not same_bits(tensor[other], tensor[row])]
        if others:
            yield row, (_with_row_of(batch, name, row, other) for other in dict.fromkeys((others[0], *others[-2:])))


def _with_row_of(batch: Any, name: str, row: int, other: int) -> Any:
    changed = copied(batch)
    values = dict(leaves(changed))[name].data
    values[row] = values[other].clone()
    return changed


def _gradients(trial: Trial, batch: Any, size: int, seed: int = 0) -> _Gradients:
    seen: list[Tensor] = []
    outputs: list[Tensor] = []

    def reply(output: Any) -> Any:
        for _, tensor in leaves(output):
            if tensor.requires_grad and tensor.ndim and len(tensor) == size:
                seen.append(_gradient_of(tensor))
                outputs.append(tensor.detach().clone())
        return output

    watch = GradientWatch([])
    with restored(trial), stilled(trial), LossWatch(keep_dropout=False), watch, ModuleWatch(reply=reply):
        seed_all(seed)
        trial.train_step(copied(batch), 0)
    place = watch.backwards[0].place if watch.backwards else Location()
    return _Gradients(seen, outputs, place)


def _gradient_of(tensor: Tensor) -> Tensor:
    """Filled when the gradient comes; zeros until then."""
    kept = torch.zeros_like(tensor)

    def keep(gradient: Tensor) -> None:
        kept.copy_(gradient)

    tensor.register_hook(keep)  # type: ignore[no-untyped-call]
    return kept
