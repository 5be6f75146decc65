"""Remembered tensors and arrays: values, storage and gradients, bit by bit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch.nn.parameter import is_lazy

# The tensors that a sparse one is made of, which torch.equal does not compare.
_PARTS = {
    torch.sparse_coo: ("indices", "values"),
    torch.sparse_csr: ("crow_indices", "col_indices", "values"),
    torch.sparse_bsr: ("crow_indices", "col_indices", "values"),
    torch.sparse_csc: ("ccol_indices", "row_indices", "values"),
    torch.sparse_bsc: ("ccol_indices", "row_indices", "values"),
}


_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")


def _parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    whole = tensor.coalesce() if tensor.layout is torch.sparse_coo else tensor
    return [getattr(whole, name)() for name in _PARTS[tensor.layout]]


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bitwise equality: NaN equals itself, 0.0 differs from -0.0."""
    if one.shape != other.shape or one.dtype != other.dtype or one.device != other.device or one.layout != other.layout:
        return False
    if one.layout in _PARTS:
        return all(same_bits(a, b) for a, b in zip(_parts(one), _parts(other)))
    if one.layout is not torch.strided or one.is_quantized or one.is_meta:
        return one.is_meta or torch.equal(one, other)
    if one.numel() == 0:
        return True
    flat, other_flat = one.contiguous().reshape(-1), other.contiguous().reshape(-1)
    return torch.equal(flat.view(torch.uint8), other_flat.view(torch.uint8))


@dataclass
class TensorCell:
    """A tensor's bits and storage, its gradient and whether it wants one."""

    name: str
    tensor: torch.Tensor
    _alias: torch.Tensor = field(init=False)
    _bits: torch.Tensor = field(init=False)
    _grad: torch.Tensor | None = field(init=False, default=None)
    _grad_bits: torch.Tensor | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._alias = self.tensor.detach()
        self._bits = self._alias.clone()
        self._wants_grad = self.tensor.requires_grad
        self._hooks = [dict(getattr(self.tensor, kind) or {}) for kind in _HOOKS] if self.tensor.is_leaf else []
        if self.tensor.is_leaf and self.tensor.grad is not None:
            self._grad = self.tensor.grad
            self._grad_bits = self._grad.detach().clone()

    def restore(self) -> None:
        tensor = self.tensor
        with torch.no_grad():
            if not _same_memory(tensor, self._alias):
                tensor.data = self._alias
            if not same_bits(tensor.detach(), self._bits):
                tensor.data.copy_(self._bits)
            if not tensor.is_leaf:
                return
            tensor.requires_grad_(self._wants_grad)
            self._restore_hooks()
            if self._grad is None or self._grad_bits is None:
                tensor.grad = None
                return
            if tensor.grad is not self._grad:
                tensor.grad = self._grad
            if not same_bits(self._grad.detach(), self._grad_bits):
                self._grad.data.copy_(self._grad_bits)

    def change(self) -> str:
        tensor = self.tensor
        if not same_bits(tensor.detach(), self._bits):
            return "its values changed"
        if tensor.is_leaf:
            grad = tensor.grad
            if (grad is None) != (self._grad_bits is None):
                return "its gradient appeared" if grad is not None else "its gradient disappeared"
            if grad is not None and self._grad_bits is not None and not same_bits(grad.detach(), self._grad_bits):
                return "its gradient changed"
            if tensor.requires_grad != self._wants_grad:
                return f"requires_grad became {tensor.requires_grad}"
            if self._hooks != [dict(getattr(tensor, kind) or {}) for kind in _HOOKS]:
                return "its hooks changed"
        return ""

    def _restore_hooks(self) -> None:
        for kind, before in zip(_HOOKS, self._hooks, strict=True):
            now = getattr(self.tensor, kind)
            if now is not None and not before:
                setattr(self.tensor, kind, None)
            elif now is not None and now != before:
                now.clear()
                now.update(before)


def _same_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.layout is not torch.strided or other.layout is not torch.strided or one.is_quantized:
        return same_bits(one.detach(), other)
    return (
        one.dtype == other.dtype
        and one.device == other.device
        and one.shape == other.shape
        and one.stride() == other.stride()
        and one.data_ptr() == other.data_ptr()
    )


@dataclass
class WatchedTensorCell:
    """A tensor too large to copy for safety's sake: a change is noticed by its version, not undone."""

    name: str
    tensor: torch.Tensor
    _version: int = field(init=False)

    def __post_init__(self) -> None:
        self._version = _version(self.tensor)

    def restore(self) -> None:
        """Nothing to put back."""

    def change(self) -> str:
        return "its values were written to" if _version(self.tensor) != self._version else ""


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


@dataclass
class LazyCell:
    """A parameter without a shape yet: the first batch gives it one, which cannot be taken back."""

    name: str
    tensor: torch.Tensor

    def restore(self) -> None:
        """Nothing to put back."""

    def change(self) -> str:
        return "" if is_lazy(self.tensor) else "a lazy parameter got its shape"


@dataclass
class ArrayCell:
    """A numpy array's bits."""

    name: str
    array: np.ndarray[Any, Any]
    _bits: np.ndarray[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._bits = self.array.copy()

    def restore(self) -> None:
        if self.change():
            self.array[...] = self._bits

    def change(self) -> str:
        same = self.array.shape == self._bits.shape and self.array.tobytes() == self._bits.tobytes()
        return "" if same else "its values changed"
