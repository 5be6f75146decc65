"""The program constructed again: as a restart would, and as two ranks of one run.

What is compared are the samples, row by row and bit by bit, of the passes over the loaders.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.ranks.splits import validated_otherwise
from mlcheck.probe.measure.tree import batch_size, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import Trial

_SEED = 4
_BATCHES = 4
_MOST_ROWS = 20_000
_SECONDS = 8.0


@dataclass(frozen=True, slots=True)
class Restart:
    """The validation samples of a start and of a restart: how many there are, and how many are others."""

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 15

    samples: int
    others: int
    now_trained: int
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        again = _constructed(trial, 0, 1)
        clock = Clock(min(seconds / 4, _SECONDS))
        first, repeated = (_validated(trial, clock) for _ in range(2))
        if first != repeated:
            raise inconclusive("two passes over the validation data differ, so two starts cannot be compared")
        after = _validated(again, clock)
        if not clock.left():
            raise inconclusive("the validation data is too long to be read three times")
        if first != after and _alike(_first_validated(trial), _first_validated(again)):
            after = first  # only rounded otherwise: statistics that are summed up in another order
        trained = _rows(again.train_batches(), clock) if first != after else set()
        return cls(len(first), len(first - after), len(first & trained), Location(*trial.entry))


@dataclass(frozen=True, slots=True)
class Ranks:
    """Two ranks: how many of their first batches are the same, of `compared`; `slots` is what the run asks for.

    `validated_elsewhere` counts samples that one rank trains on and another validates, though none does both;
    `alike` says that already the samples, or the batches, of one rank are all the same. `resplit` are validation
    samples that are others on the second rank, told by their labels where the rows of the two cannot be compared.
    """

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 15

    same: int
    compared: int
    slots: int
    validated_elsewhere: int
    place: Location
    alike: bool = False
    resplit: int = 0

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        clock = Clock(min(seconds / 4, _SECONDS))
        ranks = [_constructed(trial, rank, 2) for rank in range(2)]
        begun = [_first_batches(rank) for rank in ranks]
        compared = min(map(len, begun))
        if not compared:
            raise NotMeasured("the training data is too short for two ranks")
        same = sum(one == other for one, other in zip(*begun))
        trained = [_rows(rank.train_batches(), clock) for rank in ranks]
        validated = [_validated(rank, clock) for rank in ranks]
        apart = not (trained[0] & validated[0] or trained[1] & validated[1])
        crossed = len(trained[0] & validated[1]) + len(trained[1] & validated[0]) if apart else 0
        resplit = 0 if crossed or same else validated_otherwise(trial, ranks, clock)
        alike = len(trained[0]) == 1 or len(begun[0]) > 1 == len({*begun[0]})
        return cls(same, compared, trial.slots, crossed, Location(*trial.entry), alike, resplit)


def _constructed(trial: Trial, rank: int, world: int) -> Trial:
    if trial.again is None:
        raise NotMeasured("the program restarts, or starts its ranks, in a way of its own that mlcheck cannot repeat")
    return trial.again(rank, world)


def _validated(trial: Trial, clock: Clock) -> set[bytes]:
    if trial.validation_batches is None:
        return set()
    seed_all(_SEED)
    return _rows(trial.validation_batches(), clock)


def _first_validated(trial: Trial) -> list[Tensor]:
    assert trial.validation_batches is not None
    seed_all(_SEED)
    return list(_tensors(next(iter(trial.validation_batches()), ())))


def _alike(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(
        mine.shape == theirs.shape and torch.allclose(mine.double(), theirs.double(), rtol=1e-4, atol=1e-6)
        for mine, theirs in zip(one, other)
    )


def _first_batches(trial: Trial) -> list[bytes]:
    seed_all(_SEED)
    return [_digest(list(_tensors(batch))) for batch in islice(trial.train_batches(), _BATCHES)]


def _rows(batches: Iterator[Any], clock: Clock) -> set[bytes]:
    """A digest of every sample, its label included, as far as time and memory allow."""
    found: set[bytes] = set()
    for batch in batches:
        size = batch_size(batch)
        tensors = list(_tensors(batch))
        if size is None:
            found.add(_digest(tensors))
        else:
            found.update(_digest([tensor[row] for tensor in tensors]) for row in range(size))
        if len(found) >= _MOST_ROWS or not clock.left():
            break
    return found


def _tensors(batch: Any) -> Iterator[Tensor]:
    return (tensor.detach().cpu() for _, tensor in leaves(batch))


def _digest(tensors: list[Tensor]) -> bytes:
    digest = hashlib.blake2b(digest_size=12)
    for tensor in tensors:
        digest.update(str((tensor.dtype, tuple(tensor.shape))).encode())
        digest.update(tensor.contiguous().view(-1).numpy().tobytes() if tensor.numel() else b"")
    return digest.digest()
