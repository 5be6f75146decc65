"""Whether two ranks split the same data differently, where each scales its inputs by its own training data.

No row of one rank is then one of the other's. Single parts of the samples, such as labels, tell it all the same; and
so does the order of the numbers in a column, which no scaling changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from mlcheck.probe.measure.data.sample_tensors import sample_leaves
from mlcheck.probe.measure.drive import Clock
from mlcheck.trial.trial import Trial

MOST = 20_000
_FIRST = 8
_MOST_NUMBERS = 4_000_000
_SAME_DATA = 0.99
Values = dict[str, Counter[bytes]]


def validated_otherwise(trial: Trial, ranks: Iterable[Trial], clock: Clock) -> int:
    """How many validation samples, at least, are others on the second rank; 0 where that cannot be told.

    Both must hold as many samples as the program by itself, and together with the training samples the same ones.
    """
    data = [_data_sets(one) for one in (trial, *ranks)]
    if any(len(sets) != 2 for sets in data) or len({tuple(map(len, sets)) for sets in data}) != 1:
        return 0
    (_, one), (_, other) = data[1:]
    if _values(one, _FIRST, clock) == _values(other, _FIRST, clock) or max(map(len, data[0])) > MOST:
        return 0
    held = [[_values(one, len(one), clock) for one in sets] for sets in data[1:]]
    if not clock.left():
        return 0
    (trained, mine), (their_trained, theirs) = held
    told = max(
        (
            (mine[name] - theirs[name]).total()
            for name in mine.keys() & theirs.keys() & trained.keys() & their_trained.keys()
            if mine[name] + trained[name] == theirs[name] + their_trained[name]
        ),
        default=0,
    )
    return told or _by_order(data[1], data[2], clock)


def _by_order(sets: list[Any], their_sets: list[Any], clock: Clock) -> int:
    """How many samples one rank validates and the other trains on, told by where their numbers stand among all."""
    places, their_places = _places(sets, clock), _places(their_sets, clock)
    found = 0
    for name in places.keys() & their_places.keys():
        (trained, mine), (their_trained, theirs) = places[name], their_places[name]
        shared = ((trained + mine) & (their_trained + theirs)).total()
        if shared >= _SAME_DATA * (trained + mine).total():
            found = max(found, ((mine - theirs) & their_trained).total())
    return found


def _places(sets: list[Any], clock: Clock) -> dict[str, list[Counter[bytes]]]:
    """Of each part that is made of numbers, in both sets: how many samples have less, number by number."""
    rows: dict[str, list[Any]] = {}
    for data_set in sets:
        for index in range(len(data_set)):
            if not clock.left():
                return {}
            for name, tensor in sample_leaves(data_set[index]):
                if tensor.is_floating_point():
                    rows.setdefault(name, []).append(tensor.detach().cpu().double().flatten().numpy())
    found = {}
    for name, each in rows.items():
        width = len(each[0])
        if len(each) != sum(map(len, sets)) or any(len(row) != width for row in each):
            continue
        if 0 < width * len(each) <= _MOST_NUMBERS:
            table = np.stack(each, axis=1)
            less = np.stack([np.searchsorted(np.sort(column), column) for column in table], axis=1)
            keys = [row.tobytes() for row in less]
            found[name] = [Counter(keys[: len(sets[0])]), Counter(keys[len(sets[0]) :])]
    return found


def _data_sets(trial: Trial) -> list[Any]:
    """Those behind the two loaders that can be read by index."""
    loaders = [trial.loaders.get(name) for name in ("training", "validation")]
    sets = [loader.dataset for loader in loaders if isinstance(loader, DataLoader)]
    return [one for one in sets if not isinstance(one, IterableDataset) and hasattr(one, "__len__")]


def _values(data_set: Any, count: int, clock: Clock) -> Values:
    """How often each value of each part of a sample occurs, among the first `count`."""
    found: Values = {}
    for index in range(min(count, len(data_set))):
        if not clock.left():
            break
        for name, tensor in sample_leaves(data_set[index]):
            found.setdefault(name, Counter())[_bytes(tensor)] += 1
    return found


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().cpu().contiguous().flatten().numpy().tobytes()
