"""Whether two ranks split the same data differently, where each scales its inputs by its own training data.

No row of one rank is then one of the other's. Single parts of the samples, such as labels, tell it all the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from mlcheck.probe.measure.data.sample_tensors import sample_leaves
from mlcheck.probe.measure.drive import Clock
from mlcheck.trial.trial import Trial

MOST = 20_000
_FIRST = 8
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
    return max(
        (
            (mine[name] - theirs[name]).total()
            for name in mine.keys() & theirs.keys() & trained.keys() & their_trained.keys()
            if mine[name] + trained[name] == theirs[name] + their_trained[name]
        ),
        default=0,
    )


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
