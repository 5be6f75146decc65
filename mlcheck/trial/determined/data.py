"""Stands in for the data part of `determined.pytorch`: the DataLoader, `to_device`, `data_length`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from torch.utils.data import BatchSampler, Dataset, IterableDataset
from torch.utils.data import DataLoader as TorchDataLoader

from mlcheck.trial.determined import samplers

TorchData: TypeAlias = dict[str, torch.Tensor] | list[torch.Tensor] | tuple[torch.Tensor, ...] | torch.Tensor

_log = logging.getLogger("determined.pytorch")
_NUMERIC_KINDS = "fciub"


class DataLoader:
    """The arguments of a `torch.utils.data.DataLoader`, which is built later, repeating and sharded as needed."""

    def __init__(
        self,
        dataset: Dataset[Any],
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: Any = None,
        batch_sampler: Any = None,
        num_workers: int = 0,
        collate_fn: Any = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Any = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
    ) -> None:
        if isinstance(dataset, IterableDataset):
            raise TypeError(
                "determined.pytorch.DataLoader takes no IterableDataset: return a torch DataLoader and call "
                "context.experimental.disable_dataset_reproducibility_checks()"
            )
        if batch_sampler is None and batch_size is None:
            raise ValueError("determined.pytorch.DataLoader needs a batch_size or a batch_sampler")
        self._plain: TorchDataLoader[Any] = TorchDataLoader(
            dataset,
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            num_workers=num_workers,
            collate_fn=collate_fn,
            pin_memory=pin_memory,
            drop_last=drop_last,
            timeout=timeout,
            worker_init_fn=worker_init_fn,
            multiprocessing_context=multiprocessing_context,
            generator=generator,
            prefetch_factor=prefetch_factor,
            persistent_workers=persistent_workers,
        )
        self.dataset = dataset
        self.batch_size = self._plain.batch_size
        self.sampler = self._plain.sampler
        self.batch_sampler: Any = self._plain.batch_sampler
        self.num_workers = num_workers
        self.collate_fn = self._plain.collate_fn
        self.pin_memory = pin_memory
        self.drop_last = drop_last
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = self._plain.prefetch_factor
        self.persistent_workers = persistent_workers

    def get_data_loader(
        self, repeat: bool = False, skip: int = 0, num_replicas: int = 1, rank: int = 0
    ) -> TorchDataLoader[Any]:
        """The torch DataLoader over the adapted batch sampler."""
        return TorchDataLoader(
            self.dataset,
            batch_sampler=adapt_batch_sampler(self.batch_sampler, repeat, skip, num_replicas, rank),
            num_workers=self.num_workers,
            collate_fn=self.collate_fn,
            pin_memory=self.pin_memory,
            timeout=self.timeout,
            worker_init_fn=self.worker_init_fn,
            multiprocessing_context=self.multiprocessing_context,
            generator=self.generator,
            prefetch_factor=self.prefetch_factor,
            persistent_workers=self.persistent_workers,
        )

    def __iter__(self) -> Iterator[Any]:
        return iter(self.get_data_loader())

    def __len__(self) -> int:
        return len(self.batch_sampler)


def adapt_batch_sampler(
    batch_sampler: Any, repeat: bool = False, skip: int = 0, num_replicas: int = 1, rank: int = 0
) -> BatchSampler:
    """Repeat, then shard by whole batches, then skip what was seen before."""
    adapted = batch_sampler
    if repeat:
        adapted = samplers.RepeatBatchSampler(adapted)
    if num_replicas > 1:
        adapted = samplers.DistributedBatchSampler(adapted, num_replicas, rank)
    if skip > 0:
        adapted = samplers.SkipBatchSampler(adapted, skip)
    return adapted  # type: ignore[no-any-return]


def data_length(data: Any) -> int:
    """The number of records in a batch, taken from its first array. Raises ValueError or TypeError without one."""
    if isinstance(data, np.ndarray | torch.Tensor):
        return len(data)
    if isinstance(data, dict | list | tuple):
        if not data:
            raise ValueError(f"a batch needs at least one array or tensor, this {type(data).__name__} is empty")
        return len(next(iter(data.values())) if isinstance(data, dict) else data[0])
    raise TypeError(
        f"the number of records in a batch of type {type(data).__name__} is unknown: "
        "define get_batch_length(self, batch) in the trial"
    )


def to_device(data: Any, device: torch.device, warned_types: set[type] | None = None) -> Any:
    """Move tensors, numeric arrays and whatever has `.to`, through dicts, lists and tuples; the rest stays.

    A namedtuple becomes a plain tuple, as in Determined.
    """
    warned = set() if warned_types is None else warned_types
    if isinstance(data, dict):
        return {name: to_device(value, device, warned) for name, value in data.items()}
    if isinstance(data, list):
        return [to_device(value, device, warned) for value in data]
    if isinstance(data, tuple):
        return tuple(to_device(value, device, warned) for value in data)
    if isinstance(data, np.ndarray):
        if data.dtype.kind in _NUMERIC_KINDS:
            return torch.from_numpy(data).to(device)
    elif callable(getattr(data, "to", None)):
        return data.to(device)
    if type(data) not in warned:
        warned.add(type(data))
        _log.warning("an item of type %s stays where it is: it cannot be moved to a device", type(data).__name__)
    return data


class _GivenBatches(Dataset[Any]):
    def __init__(self, batches: list[Any], length: int) -> None:
        self._batches = batches
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> Any:
        return self._batches[index]


def loader_of(batches: list[Any], length: int) -> TorchDataLoader[Any]:
    """A loader that yields these batches; `len(loader.dataset)` is their number of records."""
    places = list(range(len(batches)))
    return TorchDataLoader(
        _GivenBatches(batches, length), batch_size=None, sampler=places, collate_fn=lambda whole: whole
    )
