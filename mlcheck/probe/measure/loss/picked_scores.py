"""Scores of classes of which a program picks those of the labels by itself, and what it normalises them by."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.tree import batch_size
from mlcheck.probe.measure.watched_step import watch_step
from mlcheck.trial.trial import Trial

_PICKING = {"gather", "take_along_dim", "__getitem__"}
_NORMALISING = {"logsumexp", "softmax", "log_softmax"}
_LESS = {"sub", "subtract", "__sub__"}


@dataclass(frozen=True, slots=True)
class Picked:
    """Scores of `shape`, a row a sample, with the dimensions that sums of their exponentials were taken over."""

    shape: tuple[int, ...]
    over: frozenset[int]
    place: Location


@dataclass(frozen=True, slots=True)
class PickedScores:
    """Those of one training step, of which one score of each row was picked."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    scores: tuple[Picked, ...]

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        normalised = called & (_NORMALISING | {"exp"})
        return "" if called & _PICKING and normalised else "no score of a label is picked by the program itself"

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        seen = _Seen(batch_size(first_batches(trial, 1)[0]) or 0)
        watch_step(trial, seen.look)
        if not (found := tuple(seen.normalised())):
            raise NotMeasured("no score of a label is picked by the program itself, of those that it normalises")
        return cls(found)


@dataclass
class _Seen:
    """Tensors are known by what they are: all that is looked at is kept, so that no other has its identity."""

    samples: int
    _kept: list[Tensor] = field(default_factory=list)
    _of: dict[int, int] = field(default_factory=dict)
    _over: dict[int, set[int]] = field(default_factory=dict)
    _picked: dict[int, tuple[tuple[int, ...], Location]] = field(default_factory=dict)

    def look(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> None:
        name, given = func.__name__, args[0]
        scores = self._of.get(id(given), id(given))
        if name in _LESS and id(args[1]) in self._of:  # log-probabilities, less what normalises them
            self._derive(scores, given, result)
        if not self._has_rows(given):
            return
        dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
        if name == "exp":
            self._derive(scores, given, result)
        elif name in _NORMALISING or (name == "sum" and scores != id(given)):
            dims = dim if isinstance(dim, tuple | list) else (dim,)
            self._over.setdefault(scores, set()).update(one % given.ndim for one in dims if one is not None)
            self._derive(scores, given, result)
        elif name == "cross_entropy":
            self._over.setdefault(scores, set()).add(1)
        elif name in _PICKING and result.numel() == self.samples and _is_one_a_row(args, dim):
            self._kept.append(given)
            self._picked[scores] = tuple(given.shape), user_location()

    def normalised(self) -> list[Picked]:
        return [
            Picked(shape, frozenset(self._over[scores]), place)
            for scores, (shape, place) in self._picked.items()
            if scores in self._over
        ]

    def _has_rows(self, tensor: Tensor) -> bool:
        return tensor.ndim == 2 and len(tensor) == self.samples != tensor.shape[1] and tensor.requires_grad

    def _derive(self, scores: int, given: Tensor, result: Tensor) -> None:
        self._kept += [given, result]
        self._of[id(result)] = scores


def _is_one_a_row(args: tuple[Any, ...], dim: Any) -> bool:
    """`gather(1, labels)` or `scores[rows, labels]`."""
    index = args[1]
    if isinstance(index, tuple):
        return len(index) == 2 and all(isinstance(one, Tensor | range | list) for one in index)
    return dim in (1, -1)
