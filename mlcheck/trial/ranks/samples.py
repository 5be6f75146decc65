"""What a loader would give, asked of it without a trace: its sampler, its plan, its length, digests of its samples."""

from __future__ import annotations

import copy
import operator
import random
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader

from mlcheck.trial.generators import seed_all

_MOST_PLANNED = 20_000


def sampler(loader: DataLoader[Any]) -> Any:
    """The one that orders the samples: that of the batch sampler where it is given whole."""
    outer: Any = loader.batch_sampler
    inner = getattr(outer, "sampler", None)
    return inner if inner is not None else loader.sampler if outer is None else outer


def plan(loader: DataLoader[Any]) -> tuple[int, ...]:
    """All indices of a pass, from a copy of its sampler, with random numbers of its own; empty where it cannot tell."""
    source = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    if size(loader) < 0 or size(loader) > _MOST_PLANNED:
        return ()
    with _random_numbers_kept():
        try:
            drawn = list(copy.deepcopy(source, {id(loader.dataset): loader.dataset}))
        except Exception:  # a sampler that cannot be copied is judged by what it gives
            return ()
    flat = [plain_index(index) for entry in drawn for index in (entry if isinstance(entry, list | tuple) else [entry])]
    return tuple(flat) if all(isinstance(index, int) for index in flat) else ()


def plain_index(index: Any) -> Any:
    """A sample's number as Python's own: samplers over a split made by NumPy or torch give theirs."""
    try:
        return operator.index(index)
    except TypeError:
        return index


@contextmanager
def _random_numbers_kept() -> Iterator[None]:
    states = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        yield
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])
        torch.set_rng_state(states[2])


def noise(loader: DataLoader[Any]) -> int:
    """A digest of all that randomness in the data set may come from."""
    own = getattr(loader, "generator", None)
    parts: list[Any] = [repr(random.getstate()), repr(np.random.get_state()), torch.get_rng_state().numpy().tobytes()]
    parts += [own.get_state().numpy().tobytes()] if own is not None else []
    return zlib.crc32(b"".join(part if isinstance(part, bytes) else part.encode() for part in parts))


def first_sample(loader: DataLoader[Any]) -> tuple[int, bool]:
    """Its digest under fixed random numbers, 0 where there is none, and whether others change it."""
    if size(loader) < 1:
        return 0, False
    read = []
    with _random_numbers_kept():
        try:
            for seed in range(2):
                seed_all(seed)
                read.append(digest(loader.dataset[0]))
        except Exception:  # only asked out of turn, so nothing is said about it
            return 0, False
    return read[0], read[0] != read[1]


def length(loader: DataLoader[Any]) -> int:
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return -1


def size(loader: DataLoader[Any]) -> int:
    try:
        return len(loader.dataset)  # type: ignore[arg-type]
    except (TypeError, NotImplementedError):
        return -1


def digest(tree: Any) -> int:
    """Of all tensors and arrays in a batch, in order."""
    if isinstance(tree, torch.Tensor):
        if tree.layout is not torch.strided or not tree.numel():
            return 0
        return zlib.crc32(tree.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    if isinstance(tree, np.ndarray):
        return zlib.crc32(np.ascontiguousarray(tree).tobytes())
    if isinstance(tree, Mapping):
        tree = list(tree.values())
    if isinstance(tree, tuple | list):
        return zlib.crc32(repr([digest(part) for part in tree]).encode())
    return zlib.crc32(repr(tree).encode()) if isinstance(tree, int | float | str | bool) else 0
