"""Whether a program has its training samples in a random order too, beside a loader that gives them in a fixed one."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any

from torch.utils.data import DataLoader, RandomSampler, Subset


def shuffled_elsewhere(loader: Any) -> bool:
    """A curriculum goes over to such a loader: it reads the same samples, and shuffles them."""
    if not isinstance(loader, DataLoader):
        return False
    base, places = _samples(loader.dataset)
    for one in gc.get_objects():
        if issubclass(type(one), DataLoader) and one is not loader and isinstance(one.sampler, RandomSampler):
            other, those = _samples(one.dataset)
            if other is base and {*places} <= {*those}:
                return True
    return False


def _samples(dataset: Any) -> tuple[Any, Sequence[int]]:
    """The data set behind all subsets, and which of its samples these are."""
    if isinstance(dataset, Subset):
        base, places = _samples(dataset.dataset)
        return base, [places[index] for index in dataset.indices]
    return dataset, range(len(dataset)) if hasattr(dataset, "__len__") else ()
