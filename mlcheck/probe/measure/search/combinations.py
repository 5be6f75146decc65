"""The combinations of hyperparameters that are planned, each started in a process of its own, and what broke."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import as_given
from mlcheck.probe.measure.search.blame import Blame, blame
from mlcheck.probe.measure.search.covering import covering, in_order
from mlcheck.trial.search import Axis, Combination, Search, key_of, middle_of, search_of
from mlcheck.trial.starts import NO_TIME, Start, answer_starts
from mlcheck.trial.trial import Trial

_SHARE = 0.75
_ROWS_SHARE = 0.7  # the rest is for telling what is to blame
_MOST_FAULTS = 5
_MOST_COUNTED = 20_000

Told = Generator[Combination, Start, Start]


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
    that are in them, with their names; `held` the names that the user gives a value instead.
    `rehearsed` holds those that were tried, with how it went. `by_runner`: the grid is a runner's, for a script.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 300

    planned: int
    drawn: int
    by_runner: bool
    is_whole: bool
    held: tuple[str, ...]
    place: Location
    values: list[tuple[str, Any]]
    rehearsed: list[tuple[Combination, Start]] = field(default_factory=list)
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
        found = cls(
            planned,
            len(search.draws) if not search.whole else 0,
            bool(source.options.grid),
            search.is_grid or planned == _size(search),
            search.held,
            Location(*trial.entry),
            _values(search),
        )
        began = time.monotonic()
        clock = Clock(seconds * _SHARE * _ROWS_SHARE)
        strategy = _Strategy(found, search, middle_of(search, source.options))
        answer_starts(strategy.run(rows, lambda: bool(clock.left())), source, seconds * _SHARE)
        found.seconds = time.monotonic() - began
        if strategy.control.how != "starts":
            raise inconclusive(
                f"started again in a process of its own, the program does not run: {strategy.control.error}"
            )
        return found

    def count(self, how: str) -> int:
        return sum(start.how == how for _, start in self.rehearsed)

    def met(self, name: str, value: Any) -> list[Start]:
        """How those went that were tried with a value."""
        return [start for row, start in self.rehearsed if _has(row, {name: value})]


class _Strategy:
    """Asks for one start after the other: a control, the combinations, and what is to blame for those that fail."""

    def __init__(self, found: Combinations, search: Search, middle: Combination | None) -> None:
        self._found, self._search, self._middle = found, search, middle
        self._known: dict[str, Start] = {}
        self._starting: list[Combination] = []
        self._choices = {axis.name: axis.values for product in search.products for axis in product}
        self.control = Start("unknown")

    def run(self, rows: Iterator[Combination], goes_on: Callable[[], bool]) -> Generator[Combination, Start, None]:
        self.control = yield {}
        if self.control.how != "starts":
            return
        untold: list[tuple[Combination, Start]] = []
        for row in rows:
            if not goes_on() or len(self._found.faults) >= _MOST_FAULTS:
                break
            if self._fault_in(row) or key_of(row) in self._known:
                continue
            start = yield from self._start(row)
            if start.how == "fails":
                start = yield from self._confirmed(row, start)
            if start == NO_TIME:
                break
            self._found.rehearsed.append((row, start))
            if start.how == "fails":
                untold.append((row, start))
            elif start.how == "starts":
                self._starting.append(row)
            if untold and (self._starting or len(untold) == 1):
                untold = yield from self._explained(untold)
        if untold:
            yield from self._give_up_on(untold)

    def _start(self, combination: Combination) -> Told:
        key = key_of(combination)
        if key not in self._known:
            self._known[key] = yield combination
        return self._known[key]

    def _confirmed(self, row: Combination, first: Start) -> Told:
        """A start that fails once and not again says nothing about its values."""
        again = yield row
        if not again.is_same(first):
            again = again if again == NO_TIME else Start("unknown", f"it failed once, and not again: {first.error}")
            self._known[key_of(row)] = again
        return again

    def _explained(
        self, untold: list[tuple[Combination, Start]]
    ) -> Generator[Combination, Start, list[tuple[Combination, Start]]]:
        """What is to blame for each; those are left for which nothing that starts is known yet."""
        if not self._starting and self._middle is not None:
            start = yield from self._start(self._middle)
            self._starting += [self._middle] if start.how == "starts" else []
        for row, start in untold:
            if self._fault_in(row):
                continue
            alike = [one for one in self._starting if one.keys() == row.keys()]
            if not alike:
                return untold
            nearest = max(alike, key=lambda one: sum(key_of({n: one[n]}) == key_of({n: row[n]}) for n in row))
            told: Blame = yield from self._remembering(blame(row, start, nearest, self._choices))
            self._tell(told)
        return []

    def _remembering(self, asking: Generator[Combination, Start, Blame]) -> Generator[Combination, Start, Blame]:
        answer: Start | None = None
        while True:
            try:
                asked = next(asking) if answer is None else asking.send(answer)
            except StopIteration as done:
                result: Blame = done.value
                return result
            answer = yield from self._start(asked)
            if answer.how == "starts":
                self._starting.append(asked)

    def _give_up_on(self, untold: list[tuple[Combination, Start]]) -> Generator[Combination, Start, None]:
        """No combination was seen to start: then it is none of their values that is to blame."""
        yield from ()
        if self._starting or any(not start.is_same(untold[0][1]) for _, start in untold):
            for row, start in untold:
                if not self._fault_in(row):
                    self._tell(Blame(row, start, is_narrow=False))
        else:
            self._tell(Blame({} if len(untold) > 1 else untold[0][0], untold[0][1], is_narrow=len(untold) > 1))

    def _fault_in(self, row: Combination) -> bool:
        return any(_has(row, fault.values) for fault in self._found.faults)

    def _tell(self, told: Blame) -> None:
        start = told.fault
        place = Location(as_given(start.place[0]), start.place[1]) if start.place[0] else self._found.place
        count = _with(self._search, told.values)
        self._found.faults.append(Fault(told.values, start.error, place, start.traceback, count, told.is_narrow))


def _planned(search: Search) -> tuple[Iterator[Combination], int]:
    """The combinations in their order, and how many there are."""
    size = _size(search)
    if search.is_grid:
        return itertools.chain.from_iterable(map(in_order, search.products)), size
    rows = covering(search.products[0])
    if search.whole and size <= 2 * len(rows):
        return in_order(search.products[0]), size
    unique = {key_of(row): row for row in (*rows, *search.draws)}
    return iter(unique.values()), len(unique)


def _values(search: Search) -> list[tuple[str, Any]]:
    named = [(axis.name, value) for product in search.products for axis in product for value in axis.values]
    return list({key_of({name: value}): (name, value) for name, value in named}.values())


def _size(search: Search) -> int:
    """Without what the sweeps of a grid have in common."""
    size = sum(_times(product) for product in search.products)
    if len(search.products) == 1 or size > _MOST_COUNTED:
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


def _has(row: Combination, values: Mapping[str, Any]) -> bool:
    return all(name in row and key_of({name: row[name]}) == key_of({name: value}) for name, value in values.items())
