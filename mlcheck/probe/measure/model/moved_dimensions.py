"""Dimensions that a program moves and then merges as if it had not: the numbers are in an order that nobody meant.

(batch, channels, height, width) moved to (batch, height, width, channels) has no channels to keep apart from the merged
rest when it is reshaped to (batch, channels, height * width): that is the shape of what was before the move. Scores of
(batch, places, classes) are not moved at all by a reshape to (batch, classes, places), as a cross-entropy wants them;
nor are steps of several features by one that puts the features first, as a convolution wants them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.watched_step import watch_step
from mlcheck.trial.trial import Trial

_MOVES = {"permute", "transpose", "movedim", "moveaxis", "swapaxes", "swapdims"}
_VIEWS = {"view", "reshape"}
_COPIES = {"contiguous", "clone"}
_KEEPING = {*_COPIES, "log_softmax", "float", "double", "to"}
_SCORED = {"cross_entropy", "nll_loss"}
_ORDERED = {"conv1d": 2, "gru": 1, "lstm": 1, "rnn_tanh": 1, "rnn_relu": 1}  # and the dimension that they go along
_SMOOTHER = 0.9
_FEW = 8

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TornApart:
    """`before` was moved to `moved` and reshaped to `after`, which merges dimensions of `before`."""

    before: Shape
    moved: Shape
    after: Shape
    place: Location


@dataclass(frozen=True, slots=True)
class Renumbered:
    """What reaches a loss or a layer in shape `after`, reshaped from `before` as if its ends were exchanged."""

    before: Shape
    after: Shape
    place: Location


@dataclass(frozen=True, slots=True)
class MovedDimensions:
    """What one training step shows: how often moved dimensions are reshaped, and where into the shape of before.

    `renumbered` are scores whose classes a view puts in front of their places, where a move is meant, `series` what a
    layer that goes along steps is given so.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    reshaped: int
    torn: tuple[TornApart, ...]
    renumbered: tuple[Renumbered, ...] = ()
    series: tuple[Renumbered, ...] = ()

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return (
            ""
            if called & {*_MOVES, *_SCORED, *_ORDERED} and called & _VIEWS
            else "no dimensions are moved and reshaped"
        )

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        watch = _Watch()
        watch_step(trial, watch.look, tuples=True)
        torn = {one.place: one for one in watch.torn}
        renumbered = {one.place: one for one in watch.renumbered}
        series = {one.place: one for one in watch.series}
        return cls(watch.reshaped, tuple(torn.values()), tuple(renumbered.values()), tuple(series.values()))


class _Watch:
    def __init__(self) -> None:
        self.reshaped = 0
        self.torn: list[TornApart] = []
        self.renumbered: list[Renumbered] = []
        self.series: list[Renumbered] = []
        self._exchanged: dict[int, tuple[Renumbered, Tensor]] = {}
        self._views: dict[int, Tensor] = {}
        self._moved: dict[int, tuple[Shape, Shape, Tensor]] = {}  # the shape before, the order, and the tensor itself

    def look(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Tensor) -> None:
        name, given = func.__name__, args[0]
        self._look_at_exchanged(name, given, result)
        known = self._moved.get(id(given))
        if name in _MOVES:
            places = tuple(range(2, 2 + given.ndim))  # sizes that tell each dimension from the others
            order = tuple(size - 2 for size in func(torch.empty(places, device="meta"), *args[1:], **kwargs).shape)
            before, earlier = (known[0], known[1]) if known else (tuple(given.shape), tuple(range(given.ndim)))
            self._moved[id(result)] = (before, tuple(earlier[place] for place in order), result)
        elif known and name in _COPIES:
            self._moved[id(result)] = (known[0], known[1], result)
        elif known and name in _VIEWS:
            self.reshaped += 1
            moved, after = tuple(given.shape), tuple(result.shape)
            if known[1][0] == 0 and _is_torn(known[0], moved, after):
                self.torn.append(TornApart(known[0], moved, after, user_location()))

    def _look_at_exchanged(self, name: str, given: Tensor, result: Tensor) -> None:
        """What a view has made may be in any order, and be put back by another; so may data that is smoother so."""
        known = self._exchanged.get(id(given))
        if name in _VIEWS:
            self._views[id(result)] = result
            if id(given) not in self._views and _is_exchanged(given.shape, result.shape):
                seen = Renumbered(tuple(given.shape), tuple(result.shape), user_location())
                self._exchanged[id(result)] = seen, given
        elif known and name in _KEEPING:
            self._exchanged[id(result)] = known
        elif known and name in _SCORED:
            self.renumbered.append(known[0])
        elif known and name in _ORDERED and _is_meant_otherwise(known[1], given, _ORDERED[name]):
            self.series.append(known[0])


def _is_meant_otherwise(before: Tensor, after: Tensor, along: int) -> bool:
    """Data may have been stored in the order that a view reads it in; what the model makes of it is not."""
    return after.requires_grad or (before.ndim == 3 and not _is_smoother(before, after, along))


def _is_smoother(before: Tensor, after: Tensor, along: int) -> bool:
    """Whether the steps of a series resemble each other more when they are read from what a view has made."""
    return float(_steps(after, along)) < _SMOOTHER * float(_steps(before, 3 - along))


def _steps(series: Tensor, along: int) -> Tensor:
    values = series.detach().double()
    return values.diff(dim=along).pow(2).mean() / values.var(along, correction=0).mean()


def _is_exchanged(before: Shape, after: Shape) -> bool:
    """(batch, places, classes) as (batch, classes, places), of another size; each may be several dimensions before."""
    if len(before) < 3 or len(after) != 3 or after[1] == after[2] or min(after[1:]) < 2 or _merges(before, after):
        return False
    sides = [(math.prod(before[1:cut]), math.prod(before[cut:])) for cut in (2, len(before) - 1)]
    return before[0] == after[0] and (after[2], after[1]) in sides


def _is_torn(before: Shape, moved: Shape, after: Shape) -> bool:
    """Whether `after` merges neighbours of `before`, and tears those of `moved`.

    Not where it may be a first dimension of `moved` that is meant to be split into a few parts, or a few merged.
    """
    before, moved, after = (tuple(size for size in shape if size > 1) for shape in (before, moved, after))
    if not 2 <= len(after) < len(before) or not _merges(before, after) or _merges(moved, after):
        return False
    was, now = next((one, other) for one, other in zip(moved, after, strict=False) if one != other)
    more, less = max(was, now), min(was, now)
    return more % less != 0 or more // less > _FEW


def _merges(shape: Shape, merged: Shape) -> bool:
    """Whether each size of `merged` is one of `shape`, or the product of several that follow one another."""
    rest = list(shape)
    for size in merged:
        product = 1
        while rest and product < size:
            product *= rest.pop(0)
        if product != size:
            return False
    return not rest
