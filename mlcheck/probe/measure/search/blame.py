"""Which of the values of a combination are to blame that it does not start: the fewest without which it would."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlcheck.trial.search import Combination, key_of
from mlcheck.trial.starts import Start

_ALTERNATIVES = 3

Asking = Generator[Combination, Start, Start]


@dataclass(frozen=True, slots=True)
class Blame:
    """`values` are those that go together: first what differs from a combination that starts, then what it has, too.

    `fault` is how they fail. `is_narrow` where no other value was seen to matter, nor left open.
    """

    values: Mapping[str, Any]
    fault: Start
    is_narrow: bool


def blame(
    failing: Combination, fault: Start, starting: Combination, choices: Mapping[str, Sequence[Any]]
) -> Generator[Combination, Start, Blame]:
    """Asks for starts with one value after the other exchanged: first for what a combination that `starting` has."""
    left, is_narrow = dict(failing), True
    guilty = []
    for name in [name for name in failing if key_of({name: failing[name]}) != key_of({name: starting[name]})]:
        other = {**left, name: starting[name]}
        start = yield other
        if start.is_same(fault):
            left, fault = other, start
        else:
            guilty.append(name)
            is_narrow &= start.how != "unknown"
    if not guilty:  # it fails and does not, with the same values
        return Blame(failing, fault, is_narrow=False)
    companions = []
    for name in [name for name in failing if name not in guilty]:
        matters = yield from _matters(name, left, choices[name])
        if matters is None:
            is_narrow = False
        elif matters:
            companions.append(name)
    return Blame({name: left[name] for name in (*guilty, *companions)}, fault, is_narrow)


def _matters(name: str, failing: Combination, choices: Sequence[Any]) -> Generator[Combination, Start, bool | None]:
    """Whether another of a few values lets it start; None where that is not known."""
    others = [value for value in choices if key_of({name: value}) != key_of({name: failing[name]})]
    is_known = False
    for value in others[:: max(1, len(others) // _ALTERNATIVES)][:_ALTERNATIVES]:
        start = yield {**failing, name: value}
        if start.how == "starts":
            return True
        is_known |= start.how == "fails"
    return False if is_known or not others else None
