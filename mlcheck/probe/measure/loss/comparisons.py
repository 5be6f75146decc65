"""Arithmetic between what a model said, a column, and what a batch holds, flat: broadcasting makes all pairs of it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import BOUNDED, last_operation
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.corners import Corners, Sides
from mlcheck.probe.measure.loss.floors import REACHED
from mlcheck.probe.measure.loss.written_pairs import SUBTRACTIONS, WrittenPairs
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.modules import Arguments, ModuleWatch
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.trial import NotReached, Trial

_OPERATIONS = ("sub", "mul", "div", "eq", "ne", "logical_and", "bitwise_and")
ARITHMETIC = {getattr(home, name) for home in (torch, Tensor) for name in _OPERATIONS} | {
    getattr(Tensor, f"__{name}__") for name in ("sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "eq", "ne", "and")
}
LOSSES = {F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss}
_SHAPING = {
    Tensor.unsqueeze, torch.unsqueeze, Tensor.view, Tensor.reshape, torch.reshape, Tensor.expand,
    Tensor.__getitem__,
}  # fmt: skip
_FLAT = _SHAPING | {Tensor.squeeze, torch.squeeze, Tensor.flatten, torch.flatten}
_PICKING = {Tensor.__getitem__, Tensor.gather, torch.gather, Tensor.take_along_dim, torch.take_along_dim}
SAID, GIVEN = frozenset({"said"}), frozenset({"given"})


@dataclass(frozen=True, slots=True)
class AllPairs:
    """An operation on `said`, shape (n, 1, ...), and `given`, shape (n, ...), or the other way round.

    `by_models` says that what is `given` comes of a model, too: a log-probability and the advantage that weighs it.
    """

    operation: str
    said: tuple[int, ...]
    given: tuple[int, ...]
    result: tuple[int, ...]
    place: Location
    by_models: bool = False


@dataclass(frozen=True, slots=True)
class Difference:
    """A model's output less numbers of the batch, as a loss written by hand takes it, in training.

    `low` and `high` are the range of these numbers, `outside` the share of them that the operation `made_by`, which the
    output comes from, never reaches.
    """

    low: float
    high: float
    made_by: str
    outside: float
    place: Location


@dataclass(frozen=True, slots=True)
class Comparisons:
    """What one training step and the evaluation of one batch compare; `training` leaves out the losses of torch.

    `corners` are sides of the batch's boxes, taken as the second pair of numbers less the first. `differences` are
    those of an output as it is, and of one shape with what it is compared with.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 8

    training: tuple[AllPairs, ...]
    evaluation: tuple[AllPairs, ...]
    seen: int
    corners: tuple[Sides, ...] = ()
    differences: tuple[Difference, ...] = ()

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - two passes, whatever the limit
        batch = first_batches(trial, 1)[0]
        training = _Pairing(losses=False)
        with stilled(trial), training.modules, training:
            trial.train_step(training.given(batch), 0)
        evaluation = _Pairing(losses=True)
        with suppress(NotReached):  # the training step is judged all the same
            evaluation.watch_evaluation(trial)
        return cls(
            (*training.found, *training.written),
            tuple(evaluation.found),
            training.seen + evaluation.seen,
            (*training.corners.found, *evaluation.corners.found),
            tuple(training.differences),
        )


class _Pairing(TorchFunctionMode):
    """Follows what comes of a batch and of the models' outputs, by name; what happens within a model is left out."""

    def __init__(self, losses: bool) -> None:
        super().__init__()
        self.found: list[AllPairs] = []
        self.differences: list[Difference] = []
        self.seen = 0
        self.corners = Corners()
        self._tables: list[tuple[int, AllPairs]] = []
        self._pairs = WrittenPairs()
        self.modules = ModuleWatch(intervene=self._enter, reply=self._leave)
        self._losses = losses
        self._inside = False
        self._kinds: dict[int, frozenset[str]] = {}
        self._columns: set[int] = set()
        self._outputs: set[int] = set()
        self._kept: list[Tensor] = []

    @property
    def written(self) -> tuple[AllPairs, ...]:
        """What is written out as all pairs, and enters the loss as one mean of them."""
        return tuple(pairs for number, pairs in self._tables if self._pairs.whole(number))

    def given(self, batch: Any) -> Any:
        """A copy of the batch, known as what is given."""
        batch = copied(batch)
        self._know(batch, GIVEN)
        self.corners.know(batch)
        return batch

    def watch_evaluation(self, trial: Trial) -> None:
        """Of the first held-out batch, where there is one."""
        if trial.evaluate_step is None or trial.validation_batches is None:
            return
        held_out = next(iter(trial.validation_batches()), None)
        if held_out is not None:
            with self.modules, self:
                trial.evaluate_step(self.given(held_out))

    def _enter(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        self._inside = True
        return args, kwargs

    def _leave(self, output: Any) -> Any:
        self._inside = False
        self._know(output, SAID)
        self._outputs |= {id(tensor) for _, tensor in leaves(output)}
        return output

    def _know(self, tree: Any, kind: frozenset[str]) -> None:
        for _, tensor in leaves(tree):
            self._kinds[id(tensor)] = kind
            self._kept.append(tensor)

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self._inside and isinstance(result, Tensor):
            with suppress(Exception):  # tensors that stand for others, as within vmap, are not looked at
                self._look(func, args, result)
        return result

    def _look(self, func: Any, args: tuple[Any, ...], result: Tensor) -> None:
        inputs = [one for given in args for one in (given if isinstance(given, (tuple, list)) else (given,))]
        tensors = [one for one in inputs if isinstance(one, Tensor)]
        if len(tensors) == 2 and (func in ARITHMETIC or (self._losses and func in LOSSES)):
            self._compare(func, tensors[0], tensors[1])
        self.corners.see(func, tensors, result)
        self._see_written(func, tensors, result)
        self._follow(func, tensors[:1] if func in _PICKING else tensors, result)

    def _follow(self, func: Any, tensors: list[Tensor], result: Tensor) -> None:
        kinds = frozenset().union(*(self._kinds.get(id(tensor), frozenset()) for tensor in tensors))
        if not kinds:
            return
        self._know(result, kinds)
        if func in _FLAT and id(tensors[0]) in self._outputs:
            self._outputs.add(id(result))
        raised = func in _SHAPING and any(result.ndim > tensor.ndim for tensor in tensors)
        alike = [tensor for tensor in tensors if tensor.ndim == result.ndim]
        columns = [tensor for tensor in alike if id(tensor) in self._columns]
        if raised or (columns and not self._fits_one_said(columns, alike)):
            self._columns.add(id(result))

    def _fits_one_said(self, columns: list[Tensor], alike: list[Tensor]) -> bool:
        """Whether what was made a column was made so for a model's column: their sum is one as that was."""
        said = [t for t in alike if "said" in self._kinds.get(id(t), ()) and id(t) not in self._columns]
        return any(one.shape == other.shape for one in said for other in columns)

    def _see_written(self, func: Any, tensors: list[Tensor], result: Tensor) -> None:
        kinds = [self._kinds.get(id(tensor)) for tensor in tensors]
        number = self._pairs.see(func, tensors, result, compares={*kinds} == {SAID, GIVEN})
        if number is not None:
            said, given = (tuple(tensor.shape) for tensor in (tensors if kinds[1] == GIVEN else reversed(tensors)))
            name = func.__name__.strip("_")
            self._tables.append((number, AllPairs(name, said, given, tuple(result.shape), user_location())))

    def _compare(self, func: Any, one: Tensor, other: Tensor) -> None:
        kinds = [self._kinds.get(id(tensor), frozenset()) for tensor in (one, other)]
        by_models = all("said" in kind for kind in kinds)
        if not by_models and (GIVEN not in kinds or not any("said" in kind for kind in kinds)):
            return
        self.seen += not by_models
        if func in SUBTRACTIONS and one.shape == other.shape and not by_models:
            said, given = (one, other) if id(one) in self._outputs else (other, one)
            self.differences += _difference(said, given, self._outputs)
        column, flat = (one, other) if one.ndim > other.ndim else (other, one)
        raised = id(column) in self._columns and func not in LOSSES
        if not (_raised_too_often(column.shape, flat.shape) or (_makes_pairs(column.shape, flat.shape) and not raised)):
            return
        said, given = (one, other) if kinds[1] == GIVEN else (other, one)
        shape = (len(flat), *flat.shape)
        self.found.append(
            AllPairs(func.__name__.strip("_"), tuple(said.shape), tuple(given.shape), shape, user_location(), by_models)
        )


def _difference(said: Tensor, given: Tensor, outputs: set[int]) -> list[Difference]:
    """Nothing where the output was rescaled first, is not trained, or is compared with whole numbers or nothing."""
    if id(said) not in outputs or not said.requires_grad or not given.is_floating_point() or not given.numel():
        return []
    made_by, wanted = last_operation(said, BOUNDED), given.detach().double()
    low, high = REACHED.get(made_by, (-math.inf, math.inf))
    outside = float(((wanted < low) | (wanted > high)).double().mean())
    return [Difference(float(wanted.min()), float(wanted.max()), made_by, outside, user_location())]


def _makes_pairs(column: torch.Size, flat: torch.Size) -> bool:
    """(n, 1, ...) with (n, ...): each of n beside each of n."""
    return (
        len(column) == len(flat) + 1
        and len(flat) > 0
        and column[1] == 1 != column[0] == flat[0]
        and (column[2:] == flat[1:])
    )


def _raised_too_often(column: torch.Size, flat: torch.Size) -> bool:
    """(n, 1, 1) with (n, k): one of n numbers was meant for each k of its own sample, and meets those of all others."""
    wide = len(column) == len(flat) + 1 > 2 and column[0] == flat[0] > 1 == column[1:].numel()
    return wide and flat[1:].numel() > 1 and flat[0] not in flat[1:]
