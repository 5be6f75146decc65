"""Stands in for `determined.pytorch.samplers`: building blocks that repeat, shard, skip and shuffle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from torch.utils.data import BatchSampler, Sampler


def _length(sampler: Any) -> int:
    return len(sampler)


class RepeatSampler(Sampler[Any]):
    """Starts the sampler again whenever it ends; its length is that of one pass."""

    def __init__(self, sampler: Iterable[Any]) -> None:
        self._sampler = sampler

    def __len__(self) -> int:
        return _length(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield from self._sampler


class DistributedSampler(Sampler[Any]):
    """Every `num_workers`-th item, from item `rank` on."""

    def __init__(self, sampler: Iterable[Any], num_workers: int, rank: int) -> None:
        if not 0 <= rank < num_workers:
            raise ValueError(f"rank must be in 0..{num_workers - 1}, not {rank}")
        self._sampler = sampler
        self._num_workers = num_workers
        self._rank = rank

    def __len__(self) -> int:
        whole, rest = divmod(_length(self._sampler), self._num_workers)
        return whole + (rest > self._rank)

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self._sampler), self._rank, None, self._num_workers)


class SkipSampler(Sampler[Any]):
    """Leaves out the first `skip` items, once; its length is that of the whole sampler."""

    def __init__(self, sampler: Iterable[Any], skip: int) -> None:
        self._sampler = sampler
        self._skip = skip

    def __len__(self) -> int:
        return _length(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        return islice(iter(self._sampler), self._skip, None)


class ReproducibleShuffleSampler(Sampler[Any]):
    """Shuffles each pass anew by a generator of its own."""

    def __init__(self, sampler: Iterable[Any], seed: int) -> None:
        self._sampler = sampler
        self._rng = np.random.RandomState(seed)

    def __len__(self) -> int:
        return _length(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        items = list(self._sampler)
        self._rng.shuffle(items)
        return iter(items)


class RepeatBatchSampler(RepeatSampler, BatchSampler):
    """`RepeatSampler` over batches of indices."""

    def __init__(self, batch_sampler: Iterable[Any]) -> None:
        RepeatSampler.__init__(self, batch_sampler)
        self.batch_sampler = batch_sampler


class DistributedBatchSampler(DistributedSampler, BatchSampler):
    """`DistributedSampler` over batches of indices."""

    def __init__(self, batch_sampler: Iterable[Any], num_workers: int, rank: int) -> None:
        DistributedSampler.__init__(self, batch_sampler, num_workers, rank)
        self.batch_sampler = batch_sampler


class SkipBatchSampler(SkipSampler, BatchSampler):
    """`SkipSampler` over batches of indices."""

    def __init__(self, batch_sampler: Iterable[Any], skip: int) -> None:
        SkipSampler.__init__(self, batch_sampler, skip)
        self.batch_sampler = batch_sampler


class ReproducibleShuffleBatchSampler(ReproducibleShuffleSampler):
    """`ReproducibleShuffleSampler` over batches of indices."""

    def __init__(self, batch_sampler: Iterable[Any], seed: int) -> None:
        super().__init__(batch_sampler, seed)
