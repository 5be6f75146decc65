"""In which order the combinations of a grid are rehearsed: such that a few of them meet every value, then every pair.

Each of the first combinations has as many values that were not met as it can have, and so for pairs of values: what one
value or two of them break shows early (a covering array, as combinatorial testing has it).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from mlcheck.trial.search import Axis, Combination

_MOST_PAIRS = 20_000

Row = tuple[int, ...]
Place = tuple[int, int]  # an axis, and one of its values
Target = tuple[Place, ...]


def in_order(product: Sequence[Axis]) -> Iterator[Combination]:
    """Every combination, once."""
    seen = set[Row]()
    for row in itertools.chain(_covering(product), itertools.product(*(range(len(axis.values)) for axis in product))):
        if row not in seen:
            seen.add(row)
            yield _filled(product, row)


def covering(product: Sequence[Axis]) -> list[Combination]:
    """Those that meet every value and every pair, the first and the last of all values among them."""
    ends = [tuple(0 for _ in product), tuple(len(axis.values) - 1 for axis in product)]
    rows = dict.fromkeys([*_covering(product), *ends])
    return [_filled(product, row) for row in rows]


def _filled(product: Sequence[Axis], row: Row) -> Combination:
    return {axis.name: axis.values[place] for axis, place in zip(product, row)}


def _covering(product: Sequence[Axis]) -> Iterator[Row]:
    places = [[(number, value) for value in range(len(axis.values))] for number, axis in enumerate(product)]
    singles: list[Target] = [(place,) for axis in places for place in axis]
    pairs: list[Target] = []
    for one, other in itertools.combinations(places, 2):
        pairs += itertools.product(one, other) if len(pairs) <= _MOST_PAIRS else ()
    for targets in (singles, pairs):
        unmet = dict.fromkeys(targets)
        while unmet:
            row = _row(places, next(iter(unmet)), unmet)
            yield row
            met = itertools.chain(((place,) for place in enumerate(row)), itertools.combinations(enumerate(row), 2))
            for target in met:
                unmet.pop(target, None)


def _row(places: list[list[Place]], target: Target, unmet: dict[Target, None]) -> Row:
    """The target's values, and on every other axis the one that meets most of what is unmet; the first of equals."""
    chosen = dict(target)
    for axis in places:
        number = axis[0][0]
        if number not in chosen:
            chosen[number] = max(axis, key=lambda place: _gain(place, chosen, unmet))[1]
    return tuple(chosen[number] for number in range(len(places)))


def _gain(place: Place, chosen: dict[int, int], unmet: dict[Target, None]) -> int:
    return ((place,) in unmet) + sum(tuple(sorted((place, other))) in unmet for other in chosen.items())
