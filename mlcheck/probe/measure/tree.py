"""Batches are trees: tensors inside tuples, lists, dicts, named tuples and dataclasses."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import torch

Path = tuple[str, ...]


def leaves(tree: Any, path: Path = ()) -> Iterator[tuple[str, torch.Tensor]]:
    """Every tensor with its dotted name: `x`, `0`, `1.mask`."""
    if isinstance(tree, torch.Tensor):
        yield ".".join(path), tree
    elif isinstance(tree, Mapping):
        for key, value in tree.items():
            yield from leaves(value, (*path, str(key)))
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        for key in tree._fields:
            yield from leaves(getattr(tree, key), (*path, key))
    elif isinstance(tree, (tuple, list)):
        for index, value in enumerate(tree):
            yield from leaves(value, (*path, str(index)))
    elif dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        for field in dataclasses.fields(tree):
            yield from leaves(getattr(tree, field.name), (*path, field.name))


def rebuild(tree: Any, change: Callable[[Any], Any]) -> Any:
    """The same tree with `change` applied to whatever is no container."""
    if isinstance(tree, torch.Tensor):
        return change(tree)
    if isinstance(tree, Mapping):
        return _like(tree, {key: rebuild(value, change) for key, value in tree.items()})
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(rebuild(value, change) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(rebuild(value, change) for value in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in dataclasses.fields(tree) if field.init]
        return dataclasses.replace(tree, **{name: rebuild(getattr(tree, name), change) for name in names})
    return change(tree)


def _like(tree: Mapping[Any, Any], items: dict[Any, Any]) -> Any:
    """A mapping of the same kind with these items: a tokenizer's batch knows how to move, which a dict does not."""
    if type(tree) is dict or not isinstance(tree, MutableMapping):
        return items
    alike = tree.copy() if isinstance(tree, dict) else copy.copy(tree)
    alike.update(items)
    return alike


def map_tensors(tree: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The same tree with `change` applied to every tensor; all else is kept."""
    return rebuild(tree, lambda leaf: change(leaf) if isinstance(leaf, torch.Tensor) else leaf)


def batch_size(tree: Any) -> int | None:
    """The length all tensors share in their first dimension; None where they do not agree (graphs, sparse)."""
    lengths = {tensor.shape[0] if tensor.ndim else None for _, tensor in leaves(tree)}
    return lengths.pop() if len(lengths) == 1 else None


def rows(tree: Any, index: torch.Tensor) -> Any:
    """Those samples of a batch whose first dimension is shared, lists of the same length included."""
    size = batch_size(tree)
    assert size is not None, "ask batch_size first"
    return _rows(tree, index, size)


def _rows(tree: Any, index: torch.Tensor, size: int) -> Any:
    if isinstance(tree, torch.Tensor):
        return tree[index.to(tree.device)]
    if isinstance(tree, Mapping):
        return _like(tree, {key: _rows(value, index, size) for key, value in tree.items()})
    if isinstance(tree, (tuple, list)) and len(tree) == size and not any(True for _ in leaves(tree)):
        return type(tree)(tree[i] for i in index.tolist())
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_rows(value, index, size) for value in tree))
    if isinstance(tree, (tuple, list)):
        return type(tree)(_rows(value, index, size) for value in tree)
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        names = [field.name for field in dataclasses.fields(tree) if field.init]
        return dataclasses.replace(tree, **{name: _rows(getattr(tree, name), index, size) for name in names})
    return tree


def copied(tree: Any) -> Any:
    """A copy that later in-place operations on the batch cannot reach."""
    return map_tensors(tree, lambda tensor: tensor.detach().clone())


def beside(tensor: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """The same values where `other` lies: a program moves its batches to a device itself."""
    return tensor.detach().to(other.device)


def on_host(tree: Any) -> Any:
    """The same values on the CPU, apart from any graph; what is there already is shared."""
    return map_tensors(tree, lambda tensor: tensor.detach().cpu())
