"""Samples that reading changes where they are stored, so that the next read of them starts from something else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import FunctionType
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset

from mlcheck.core.finding import Location
from mlcheck.probe.measure.data.normalised import data_sets
from mlcheck.probe.measure.data.sample_tensors import sample_leaves
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import as_given, is_users
from mlcheck.trial.generators import ValueCell, generator_cell, seed_sample
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial

_SAMPLES = 3
_MOST_ARRAYS = 5_000
_MOST_BYTES = 32_000_000


@dataclass(frozen=True, slots=True)
class Overwriting:
    """Reading sample `index` changes what it is read from: `part` of it moves by up to `moved` with the next read."""

    split: str
    index: int
    part: str
    moved: float
    place: Location


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Of `looked_at` samples those that depend on what an earlier read of them left in memory."""

    reach: ClassVar[Reach] = "nothing"
    order: ClassVar[int] = 4

    found: tuple[Overwriting, ...]
    looked_at: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few reads, whatever the limit
        found, looked_at = [], 0
        for split, loader in trial.loaders.items():
            if not isinstance(loader, DataLoader) or isinstance(loader.dataset, IterableDataset):
                continue
            if loader.num_workers and not loader.persistent_workers:
                continue  # what its processes write is gone with them after each pass
            reading = _Reading(loader)
            for index in _indices(loader.dataset):
                with suppress(Exception):  # told by the probes of single samples
                    looked_at += 1
                    found += [Overwriting(split, index, *told, reading.place) for told in reading.overwrites(index)]
        if not looked_at:
            raise NotMeasured("no data set in this process can be asked for a sample twice")
        return cls(tuple(found), looked_at)


class _Reading:
    """Reads samples of one data set, each time with the same random numbers."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._data: Any = loader.dataset
        own = list(data_sets(loader))
        self._generators = [cell for one in own for cell in _generators(one)]
        self._stored = _small_enough(_arrays([vars(one) for one in own]))
        self.place = next((place for one in own if (place := _written_in(one))), Location())

    def overwrites(self, index: int) -> list[tuple[str, float]]:
        """The first part of the sample that is another at the second read, and is as it was with its memory put back.

        The read before may fill a cache. What is written but not read again, as a count of the reads is, changes no
        sample; nor does a buffer that is filled anew.
        """
        memory = [*self._stored, *self._read(index)[0]]
        memory = [one for one in memory if not _overlaps(one)]
        before = [one.clone() for one in memory]
        try:
            once = self._read(index)[1]
            written = [one for one, old in zip(memory, before) if not same_bits(one, old)]
            size = max((int((one != old).sum()) for one, old in zip(memory, before)), default=0)
            again = self._read(index)[1] if written else once
            changed = [name for name in once if name in again and not same_bits(once[name], again[name])]
            _put_back(memory, before)
            if not changed or size < once[changed[0]].numel() // 2 or size < 2:
                return []
            third = self._read(index)[1]
            return [(changed[0], _distance(once, again, changed[0]))] if _equal(once, third) else []
        finally:
            _put_back(memory, before)

    def _read(self, index: int) -> tuple[list[Tensor], dict[str, Tensor]]:
        """The tensors as they were handed out, and copies of them."""
        for cell in self._generators:
            cell.restore()
        seed_sample(5)
        handed = [(name, tensor.detach()) for name, tensor in sample_leaves(self._data[index])]
        return [tensor for _, tensor in handed], {name: tensor.clone() for name, tensor in handed}


def _indices(data: Any) -> list[int]:
    with suppress(Exception):
        return sorted({0, len(data) // 2, len(data) - 1})[:_SAMPLES]
    return []


def _generators(owner: Any) -> Iterator[ValueCell]:
    for name, value in vars(owner).items():
        if cell := generator_cell(name, value):
            yield cell


def _arrays(values: Any, depth: int = 0) -> Iterator[Tensor]:
    """Tensors and writeable arrays of numbers, in lists, tuples and dicts of them too."""
    if isinstance(values, Tensor):
        if values.layout is torch.strided and values.numel():
            yield values.detach()
    elif isinstance(values, np.ndarray):
        if values.dtype.kind in "fiu" and values.flags.writeable and values.size:
            with suppress(TypeError, ValueError):  # a type or a layout that torch has none for
                yield torch.from_numpy(values)
    elif isinstance(values, dict | list | tuple) and depth < 3:
        for value in values.values() if isinstance(values, dict) else values:
            yield from _arrays(value, depth + 1)


def _small_enough(arrays: Iterator[Tensor]) -> list[Tensor]:
    """None of them where they are too many to be copied."""
    kept: list[Tensor] = []
    left = _MOST_BYTES
    for one in arrays:
        left -= one.numel() * one.element_size()
        if left < 0 or len(kept) == _MOST_ARRAYS:
            return []
        kept.append(one)
    return kept


def _overlaps(tensor: Tensor) -> bool:
    """Several of its places are one number in memory: it cannot be put back."""
    return any(step == 0 and size > 1 for step, size in zip(tensor.stride(), tensor.shape))


def _put_back(memory: list[Tensor], before: list[Tensor]) -> None:
    for one, old in zip(memory, before):
        if not same_bits(one, old):
            one.copy_(old)


def _equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(same_bits(one[name], other[name]) for name in one)


def _distance(once: dict[str, Tensor], again: dict[str, Tensor], name: str) -> float:
    if once[name].shape != again[name].shape:
        return float("inf")
    return float((once[name].double() - again[name].double()).abs().max())


def _written_in(data: Any) -> Location | None:
    """Where the user's own class reads a sample."""
    read = getattr(type(data), "__getitem__", None)
    if not isinstance(read, FunctionType) or not is_users(read.__code__.co_filename):
        return None
    code = read.__code__
    return Location(as_given(code.co_filename), code.co_firstlineno, symbol=code.co_qualname)
