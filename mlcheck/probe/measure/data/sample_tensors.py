"""A sample of a data set as tensors by name, whatever it is made of, and a hash of it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import default_convert

from mlcheck.probe.measure.tree import leaves, on_host


def sample_leaves(sample: Any) -> Iterator[tuple[str, Tensor]]:
    """The tensors of a sample by name, on the CPU; arrays, pictures and plain numbers as tensors too."""
    converted = default_convert(sample)  # type: ignore[no-untyped-call]
    yield from leaves(on_host(_as_tensors(converted)))


def _as_tensors(tree: Any) -> Any:
    if isinstance(tree, dict):
        return {key: _as_tensors(value) for key, value in tree.items()}
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_as_tensors(value) for value in tree))
    if isinstance(tree, list) and len(tree) > 1 and all(isinstance(value, (bool, int, float)) for value in tree):
        return torch.tensor(tree)
    if isinstance(tree, (list, tuple)):
        return [_as_tensors(value) for value in tree]
    if isinstance(tree, (bool, int, float)):
        return torch.tensor(tree)
    if isinstance(tree, Tensor) and (tree.is_sparse or tree.is_sparse_csr):
        return tree.to_dense()
    if hasattr(tree, "__array_interface__") and not isinstance(tree, Tensor):
        return torch.from_numpy(np.array(tree))
    return tree


def sample_texts(sample: Any) -> Iterator[Tensor]:
    """The texts of a sample, letter by letter."""
    if isinstance(sample, str) and sample:
        yield torch.tensor(list(sample.encode(errors="replace")), dtype=torch.uint8)
    elif isinstance(sample, dict | list | tuple):
        for part in sample.values() if isinstance(sample, dict) else sample:
            yield from sample_texts(part)


def digest(tensors: Iterable[Tensor]) -> bytes:
    """A hash of values, shapes and types."""
    return hashed(map(encoded, tensors))


def hashed(parts: Iterable[bytes]) -> bytes:
    found = hashlib.blake2b(digest_size=16)
    for part in parts:
        found.update(part)
    return found.digest()


def encoded(tensor: Tensor) -> bytes:
    """Its type, shape and values in order, whatever its strides."""
    plain = tensor.detach().cpu()
    head = f"{plain.dtype}{tuple(plain.shape)}".encode()
    try:
        return head + plain.numpy().tobytes()
    except (TypeError, RuntimeError):  # numpy knows no bfloat16, no sparse layout, and nothing lazily conjugated
        plain = plain.to_dense() if plain.layout is not torch.strided else plain.resolve_conj().resolve_neg()
    plain = plain.clone(memory_format=torch.contiguous_format)  # one number may have any stride and be contiguous
    return head + (plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b"")


def equal_share(digests: Collection[bytes]) -> float:
    """The share of samples that equal an earlier one in every bit, label included."""
    return 1 - len(set(digests)) / len(digests) if digests else 0.0
