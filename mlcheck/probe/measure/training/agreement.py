"""Whether two runs agree: metrics and weights compared bit for bit, and how far apart they are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import torch

from mlcheck.trial.tensors import same_bits

_ROUNDING = 1e-5


def differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [
        f"{name} {_told(one[name])} instead of {_told(other.get(name))}"[:200] if _is_number(one[name]) else name
        for name in one
        if not _same(one[name], other.get(name))
    ]


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest difference, 0 where it is of the size of rounding, infinite where it is no number."""
    if one.numel() == 0 or same_bits(one, other):
        return 0.0
    far = float((one.double() - other.double()).abs().max())
    if math.isnan(far):
        return math.inf
    return far if far > _ROUNDING * float(one.double().abs().max()) else 0.0


def plain(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else deepcopy(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) or getattr(value, "size", None) == 1 or _is_scalar(value)


def _is_scalar(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.numel() == 1


def _told(value: Any) -> str:
    try:
        return f"{float(value):.6g}"
    except (TypeError, ValueError):
        return str(value)


def _same(one: Any, other: Any) -> bool:
    """Bitwise, with NaN equal to NaN; lists and mappings item by item."""
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    try:
        mine, theirs = torch.as_tensor(one), torch.as_tensor(other)
    except (TypeError, ValueError, RuntimeError):
        if hasattr(one, "tolist") and hasattr(other, "tolist"):
            return _same(one.tolist(), other.tolist())
        return bool(one == other)
    return same_bits(mine, theirs)
