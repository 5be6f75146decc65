"""Batches for a reference in float64: joined to one, and in its type."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


def joined_batch(batches: list[Any]) -> Any:
    """The batches of all ranks as one. Raises TypeError or ValueError for what has no first dimension to join along."""
    first = batches[0]
    if isinstance(first, Tensor):
        if not first.ndim:
            if all(torch.equal(first, other) for other in batches):
                return first
            raise ValueError("a tensor without dimensions differs by rank")
        return torch.cat(batches)
    if isinstance(first, dict):
        return {name: joined_batch([batch[name] for batch in batches]) for name in first}
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(joined_batch(list(parts)) for parts in zip(*batches, strict=True)))
    if isinstance(first, tuple | list):
        if any(isinstance(part, Tensor | dict | tuple | list) for part in first):
            return type(first)(joined_batch(list(parts)) for parts in zip(*batches, strict=True))
        return type(first)(part for batch in batches for part in batch)
    if all(first == other for other in batches):
        return first
    raise TypeError(f"a {type(first).__name__} differs by rank")


def in_double(tree: Any) -> Any:
    if isinstance(tree, Tensor):
        return tree.double() if tree.is_floating_point() else tree
    if isinstance(tree, dict):
        return {name: in_double(value) for name, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*map(in_double, tree))
    if isinstance(tree, tuple | list):
        return type(tree)(map(in_double, tree))
    return tree


@contextmanager
def in_float64() -> Iterator[None]:
    """What the program makes anew is in float64."""
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(dtype)
