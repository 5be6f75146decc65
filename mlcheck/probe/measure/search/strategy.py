"""What is asked to be started, and when: a control, the combinations, and what is to blame for those that fail."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import Any

from mlcheck.probe.measure.search.blame import Blame, blame
from mlcheck.trial.search import Combination, Search, key_of
from mlcheck.trial.starts import NO_TIME, Start

MOST_FAULTS = 5
MOST_COUNTED = 20_000

Asking = Generator[Combination, Start, None]
Judging = Generator[Combination, Start, Start]
Failed = tuple[Combination, Start]


class Strategy:
    """Asks by yielding a combination, none of the values being the control, and is sent how its start went.

    `rehearsed` are the combinations that were tried, `like_failed` counts others that have the values of a fault.
    """

    def __init__(self, search: Search, middle: Combination | None) -> None:
        self._middle = middle
        self._choices = {axis.name: axis.values for product in search.products for axis in product}
        self._known: dict[str, Start] = {}
        self._starting: list[Combination] = []
        self.control = NO_TIME
        self.rehearsed: list[tuple[Combination, Start]] = []
        self.like_failed = 0
        self.faults: list[Blame] = []

    def run(self, rows: Iterator[Combination], goes_on: Callable[[], bool]) -> Asking:
        self.control = yield {}
        if self.control.how != "starts":
            return
        untold: list[Failed] = []
        for row in rows:
            if has_fault(row, self.faults):
                self.like_failed += 1
                continue
            start = (yield from self._judged(row)) if goes_on() and len(self.faults) < MOST_FAULTS else NO_TIME
            if start == NO_TIME:
                break
            self.rehearsed.append((row, start))
            if start.how == "fails":
                untold.append((row, start))
            elif start.how == "starts":
                self._starting.append(row)
            if untold and (self._starting or len(untold) == 1):
                untold = yield from self._explained(untold)
        self._tell_unexplained(untold)
        self.like_failed += sum(has_fault(row, self.faults) for row in itertools.islice(rows, MOST_COUNTED))

    def _start(self, combination: Combination) -> Judging:
        key = key_of(combination)
        if key not in self._known:
            self._known[key] = yield combination
        return self._known[key]

    def _judged(self, row: Combination) -> Judging:
        """A start that fails once and not again says nothing about its values."""
        first = yield from self._start(row)
        if first.how != "fails":
            return first
        again = yield row
        if not again.is_same(first):
            again = again if again == NO_TIME else Start("unknown", f"it failed once, and not again: {first.error}")
            self._known[key_of(row)] = again
        return again

    def _explained(self, untold: list[Failed]) -> Generator[Combination, Start, list[Failed]]:
        """Tell what is to blame for each; those are left for which nothing that starts is known yet."""
        if not self._starting and self._middle is not None:
            start = yield from self._start(self._middle)
            self._starting += [self._middle] if start.how == "starts" else []
        left = []
        for row, fault in untold:
            alike = [one for one in self._starting if one.keys() == row.keys()]
            if not alike:
                left.append((row, fault))
            elif not has_fault(row, self.faults):
                nearest = max(alike, key=lambda one: sum(has(one, {name: row[name]}) for name in row))
                told = yield from self._remembering(blame(row, fault, nearest, self._choices))
                self.faults.append(told)
        return left

    def _remembering(self, asking: Generator[Combination, Start, Blame]) -> Generator[Combination, Start, Blame]:
        answer: Start | None = None
        while True:
            try:
                asked = next(asking) if answer is None else asking.send(answer)
            except StopIteration as done:
                told: Blame = done.value
                return told
            answer = yield from self._start(asked)
            if answer.how == "starts":
                self._starting.append(asked)

    def _tell_unexplained(self, untold: list[Failed]) -> None:
        """Where none was seen to start and all fail alike, it is none of their values that is to blame."""
        if len(untold) > 1 and not self._starting and all(start.is_same(untold[0][1]) for _, start in untold):
            self.faults.append(Blame({}, untold[0][1], is_narrow=True))
            return
        for row, start in untold:
            if not has_fault(row, self.faults):
                self.faults.append(Blame(row, start, is_narrow=False))


def has_fault(row: Combination, faults: list[Blame]) -> bool:
    return any(has(row, fault.values) for fault in faults)


def has(row: Combination, values: Mapping[str, Any]) -> bool:
    return all(name in row and key_of({name: row[name]}) == key_of({name: value}) for name, value in values.items())
