"""Stands in for Determined's metric reducers, with one slot."""

from __future__ import annotations

import abc
import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

_TOO_LITTLE = (ValueError, ArithmeticError, IndexError, RuntimeError)


class Reducer(enum.Enum):
    """How the values of a validation metric over the batches become one. AVG weighs every batch alike."""

    AVG = 1
    SUM = 2
    MAX = 3
    MIN = 4

    def reduce(self, values: Sequence[Any]) -> Any:
        stacked = np.stack(values, axis=0)
        match self:
            case Reducer.AVG:
                return np.average(stacked)
            case Reducer.SUM:
                return np.sum(stacked)
            case Reducer.MAX:
                return np.max(stacked)
            case Reducer.MIN:
                return np.min(stacked)


class MetricReducer(abc.ABC):
    """Collects values over a workload and reduces them, first on each slot, then over the slots."""

    @abc.abstractmethod
    def reset(self) -> None:
        """Forget everything: a new workload begins."""

    @abc.abstractmethod
    def per_slot_reduce(self) -> Any:
        """What this slot contributes."""

    @abc.abstractmethod
    def cross_slot_reduce(self, per_slot_metrics: Any) -> Any:
        """The metric, from one contribution per slot."""


class SimpleReducer(MetricReducer):
    """A function of the list of all values given to `update`."""

    def __init__(self, fn: Callable[[list[Any]], Any]) -> None:
        self.fn = fn
        self.values: list[Any] = []

    def reset(self) -> None:
        self.values = []

    def update(self, value: Any) -> None:
        self.values.append(value)

    def per_slot_reduce(self) -> Any:
        return self.values

    def cross_slot_reduce(self, per_slot_metrics: Any) -> Any:
        return self.fn([value for values in per_slot_metrics for value in values])


@dataclass(frozen=True)
class _Registered:
    reducer: MetricReducer
    name: str | None
    for_training: bool
    for_validation: bool


class Reducers:
    """The reducers a trial has registered."""

    def __init__(self) -> None:
        self._registered: list[_Registered] = []

    def add(self, reducer: Any, name: str | None, for_training: bool, for_validation: bool) -> MetricReducer:
        if any(known.reducer is reducer for known in self._registered):
            raise AssertionError(f"the same {type(reducer).__name__} is given to context.wrap_reducer() twice")
        if not isinstance(reducer, MetricReducer):
            if not callable(reducer):
                raise TypeError(
                    "context.wrap_reducer() takes a function or a determined.pytorch.MetricReducer, "
                    f"not {type(reducer).__name__}"
                )
            reducer = SimpleReducer(reducer)
        known = _Registered(reducer, name, for_training, for_validation)
        self._registered.append(known)
        return known.reducer

    def reset(self) -> None:
        for known in self._registered:
            known.reducer.reset()

    def reduce(self, *, for_training: bool, cut_short: bool = False) -> dict[str, Any]:
        """The metrics of all reducers meant for this kind of workload.

        One that was cut short may hold too little for a reducer: a class is missing, and its metric is NaN.
        """
        metrics: dict[str, Any] = {}
        for known in self._registered:
            if known.for_training if for_training else known.for_validation:
                try:
                    value = known.reducer.cross_slot_reduce((known.reducer.per_slot_reduce(),))
                except _TOO_LITTLE:
                    if not cut_short:
                        raise
                    value = {} if known.name is None else math.nan
                metrics.update(_named(known, value))
        return metrics

    @property
    def objects(self) -> list[MetricReducer]:
        return [known.reducer for known in self._registered]


def _named(known: _Registered, reduced: Any) -> dict[str, Any]:
    what = f"the reducer {getattr(known.reducer, 'fn', known.reducer)!r}"
    if known.name is None:
        if not isinstance(reduced, dict):
            raise TypeError(f"{what} was wrapped without a name, so it must return a dict of metrics")
        return reduced
    if isinstance(reduced, dict):
        raise TypeError(f"{what} was wrapped with the name {known.name!r}, so it must not return a dict")
    return {known.name: reduced}
