"""The combinations of hyperparameters that are planned, each started in a process of its own, and what broke."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import as_given
from mlcheck.probe.measure.search.blame import Blame
from mlcheck.probe.measure.search.covering import covering, in_order
from mlcheck.probe.measure.search.strategy import MOST_COUNTED, Strategy, has
from mlcheck.trial.search import Axis, Combination, Search, key_of, middle_of, search_of
from mlcheck.trial.starts import Start, answer_starts
from mlcheck.trial.trial import Trial

_SHARE = 0.75
_ROWS_SHARE = 0.85  # the rest is for telling what is to blame


@dataclass(frozen=True, slots=True)
class Fault:
    """`values` do not go together; `planned` combinations have them. Without values, none was seen to start.

    `is_narrow` is False where some of the values may have nothing to do with it.
    """

    values: Mapping[str, Any]
    error: str
    place: Location
    traceback: str
    planned: int
    is_narrow: bool


@dataclass(slots=True)
class Combinations:
    """Of `planned` combinations so many `started`, were `rejected` by the trial, `failed`, or stayed `unknown`.

    `is_whole`: these are all that can be started; else a search draws others, as `drawn` of them were. `values` are all
    that are in them, with their names. `rehearsed` holds those that were tried, with how it went; `like_failed` counts
    the others that have the values of a fault. `by_runner`: the grid is a runner's, for a script.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 300

    planned: int
    drawn: int
    by_runner: bool
    is_whole: bool
    values: list[tuple[str, Any]]
    rehearsed: list[tuple[Combination, Start]] = field(default_factory=list)
    like_failed: int = 0
    faults: list[Fault] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def unfit(cls, trial: Trial) -> str:
        if trial.source is None:
            return "the program cannot be started in another process"
        if search_of(trial.source.options) is None:
            return "one combination is planned, the one that is examined: no hyperparameter has several values"
        return ""

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        source, why = trial.source, cls.unfit(trial)
        search = search_of(source.options) if source and not why else None
        if source is None or search is None:
            raise NotMeasured(why)
        rows, planned = _planned(search)
        strategy = Strategy(search, middle_of(search, source.options))
        began, clock = time.monotonic(), Clock(seconds * _SHARE * _ROWS_SHARE)
        answer_starts(strategy.run(rows, lambda: bool(clock.left())), source, seconds * _SHARE)
        if strategy.control.how != "starts":
            told = strategy.control.error
            raise inconclusive(f"started again in a process of its own, the program does not run: {told}")
        place = Location(*trial.entry)
        return cls(
            planned,
            len(search.draws),
            by_runner=bool(source.options.grid),
            is_whole=search.is_grid or planned == _size(search),
            values=_values(search),
            rehearsed=strategy.rehearsed,
            like_failed=strategy.like_failed,
            faults=[_fault(told, search, place) for told in strategy.faults],
            seconds=time.monotonic() - began,
        )

    def count(self, how: str) -> int:
        return sum(start.how == how for _, start in self.rehearsed) + (self.like_failed if how == "fails" else 0)

    @property
    def untried(self) -> int:
        return max(0, self.planned - self.like_failed - len(self.rehearsed))

    def met(self, name: str, value: Any) -> list[Start]:
        """How those went that were tried with a value."""
        return [start for row, start in self.rehearsed if has(row, {name: value})]


def _fault(told: Blame, search: Search, entry: Location) -> Fault:
    start = told.fault
    place = Location(as_given(start.place[0]), start.place[1]) if start.place[0] else entry
    return Fault(told.values, start.error, place, start.traceback, _with(search, told.values), told.is_narrow)


def _planned(search: Search) -> tuple[Iterator[Combination], int]:
    """The combinations in their order, and how many there are."""
    size = _size(search)
    if search.is_grid:
        return _distinct(_in_turn(list(map(in_order, search.products)))), size
    rows = covering(search.products[0])
    if search.whole and size <= 2 * len(rows):
        return in_order(search.products[0]), size
    unique = list(_distinct([*rows, *search.draws]))
    return iter(unique), len(unique)


def _in_turn(many: list[Iterator[Combination]]) -> Iterator[Combination]:
    together = itertools.zip_longest(*many)
    return (row for row in itertools.chain.from_iterable(together) if row is not None)


def _distinct(rows: Iterable[Combination]) -> Iterator[Combination]:
    seen = set[str]()
    for row in rows:
        if (key := key_of(row)) not in seen:
            seen.add(key)
            yield row


def _values(search: Search) -> list[tuple[str, Any]]:
    named = [(axis.name, value) for product in search.products for axis in product for value in axis.values]
    return list({key_of({name: value}): (name, value) for name, value in named}.values())


def _size(search: Search) -> int:
    """Without what the sweeps of a grid have in common."""
    size = sum(_times(product) for product in search.products)
    if len(search.products) == 1 or size > MOST_COUNTED:
        return size
    return len({key_of(row) for product in search.products for row in in_order(product)})


def _times(product: Sequence[Axis]) -> int:
    return math.prod(len(axis.values) for axis in product)


def _with(search: Search, values: Mapping[str, Any]) -> int:
    """How many of a grid's combinations have them."""
    return sum(
        _times([axis for axis in product if axis.name not in values])
        for product in search.products
        if all(any(axis.name == name for axis in product) for name in values)
    )
