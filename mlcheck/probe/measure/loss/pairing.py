"""Whose target each prediction is compared with: one sample's is exchanged, and whose gradient changes is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, first_batches
from mlcheck.probe.measure.loss.reordered_targets import reordered
from mlcheck.probe.measure.loss.row_traces import Moment, RowTraces, changed_rows
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.tree import batch_size, copied, leaves
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial

ROWS = 5
_FEW = 3
_SECONDS = 4.0
_MOST_PLACES = 512
_LATER = (Moment(1, 1), Moment(2, 2), Moment(3, 3))


@dataclass(frozen=True, slots=True)
class Strayed:
    """A tensor of the batch whose row `own` alone decides the gradient in row `reached` of what is predicted.

    The prediction for that sample is in row `predicted`; so it is of `astray` rows of those `asked` about. What a step
    puts in another order as a whole goes together still. `sometimes` says that the first step did not do so. Where a
    model gets these rows, too (`read`), the target of the prediction for `own` is the row of sample `reached`.
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
    predicted: int = -1
    sometimes: bool = False
    read: bool = False


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
        clock, before = Clock(min(_SECONDS, seconds / 10)), RowTraces.of(trial, batch, size, Moment())
        if not before.gradients:
            raise NotMeasured("no gradient of a prediction with one row a sample was seen")
        names = [name for name, tensor in leaves(batch) if tensor.ndim and len(tensor) == size >= 2 * ROWS]
        found = _Exchanges(trial, batch, size, Moment(), before, clock)
        strayed = found.strayed(names) or found.strayed_copies(names)
        for name in several if not strayed and found.in_order else ():
            with suppress(Exception):
                strayed += [one for one in [_scattered(trial, batch, name, size, clock)] if one]
        for moment in _LATER if not strayed else ():
            with suppress(Exception):  # a program that knows no such step
                then = RowTraces.of(trial, batch, size, moment)
                if clock.left() and changed_rows(before.gradients, then.gradients):
                    strayed += _Exchanges(trial, batch, size, moment, then, clock).strayed(names)
            if strayed:
                break
        return cls(tuple(strayed), len(names) + len(several), before.place)


class _Exchanges:
    """Steps in which one row of one tensor is another's, and which rows that changes.

    `at` is where the prediction for a sample stands, by what the models were given and said; `meeting` are samples
    that were given to them in several places, or in an order that hangs on them.
    """

    def __init__(self, trial: Trial, batch: Any, size: int, moment: Moment, before: RowTraces, clock: Clock) -> None:
        self._trial, self._batch, self._size, self._moment = trial, batch, size, moment
        self._before, self._clock = before, clock
        self._at: dict[int, int] = {}
        self._meeting: set[int] = set()

    @property
    def in_order(self) -> bool:
        """Whether the predictions stand where their samples do, as far as that was seen."""
        return all(row == at for row, at in self._at.items())

    def strayed(self, names: list[str]) -> list[Strayed]:
        reached: dict[str, list[tuple[int, int]]] = {}
        for name in names:
            with suppress(Exception):  # a program may refuse a sample that is made of two
                reached[name] = self._reached(name)
        return [one for name, pairs in reached.items() if (one := self._judged(name, pairs))]

    def strayed_copies(self, names: list[str]) -> list[Strayed]:
        """What a model reads and the loss compares with what it says of another sample."""
        rows = dict(leaves(self._batch))
        pairs = {name: reordered(rows[name], self._before.losses, self._at) for name in names if self._at}
        return [
            Strayed(name, *found[0], len(found), len(found), predicted=self._at[found[0][0]], read=True)
            for name, found in pairs.items()
            if len(found) >= _FEW
        ]

    def _judged(self, name: str, pairs: list[tuple[int, int]]) -> Strayed | None:
        """Astray where this is so of all rows asked about but one."""
        pairs = [pair for pair in pairs if pair[0] in self._at or pair[0] not in self._meeting]
        astray = [(own, row) for own, row in pairs if row != self._at.get(own, own)]
        if len(astray) < max(_FEW, len(pairs) - 1):
            return None
        own, row = astray[0]
        one = Strayed(name, own, row, len(pairs), len(astray), predicted=self._at.get(own, own))
        return replace(one, sometimes=self._moment != Moment())

    def _reached(self, name: str) -> list[tuple[int, int]]:
        """Rows of a tensor that no model's answer depends on, and the one row of gradients that each decides.

        Nothing of one that reaches several; of one that the answers depend on, where they do is kept.
        """
        found: list[tuple[int, int]] = []
        for row, exchanges in _exchanged(self._batch, name):
            for exchanged in exchanges:
                after = RowTraces.of(self._trial, exchanged, self._size, self._moment)
                given = changed_rows(self._before.inputs, after.inputs)
                said = changed_rows(self._before.outputs, after.outputs)
                pulled = changed_rows(self._before.gradients, after.gradients)
                if given is None or said is None or pulled is None or not self._clock.left():
                    return []
                if said or given:
                    one_of = said if len(said) == 1 else given
                    if len(one_of) == 1:
                        self._at[row] = next(iter(one_of))
                    elif len(given) > 1:
                        self._meeting.add(row)
                    break
                if len(pulled) > 1:
                    return []
                found += [(row, one) for one in pulled]
                if pulled:
                    break
        return found


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
    said = RowTraces.of(trial, batch, size, Moment()).outputs
    for own, changed in _changed_places(batch, name):
        if not all(map(same_bits, said, RowTraces.of(trial, changed, size, Moment()).outputs)):
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
    moment = Moment(seed=seed)
    both = [RowTraces.of(trial, given, size, moment).gradients for given in (batch, changed)]
    flat = [(a.flatten(0, 1), b.flatten(0, 1)) for a, b in zip(*both, strict=True) if tuple(a.shape[:2]) == shape]
    return {place for a, b in flat for place in range(len(a)) if not same_bits(a[place], b[place])}


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
