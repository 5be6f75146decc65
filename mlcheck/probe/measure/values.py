"""What a Python value is, in a few words: a tensor by shape, type, place and range, NaN and infinite values counted."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

LONGEST = 160
_SHOWN = 6
_DEPTH = 3


def told(value: Any, depth: int = 0) -> str:
    """Never raises: it is asked about every local variable of the user's code."""
    try:
        return _told(value, depth)
    except Exception as error:
        return f"{type(value).__name__} (cannot be shown: {type(error).__name__})"


def _told(value: Any, depth: int) -> str:
    if isinstance(value, Tensor):
        return tensor_told(value)
    if isinstance(value, np.ndarray):
        shown = tensor_told(torch.from_numpy(value)) if value.dtype.kind in "fiub" else f"{value.shape}, {value.dtype}"
        return f"array {shown}"
    if isinstance(value, nn.Module):
        return f"{type(value).__name__}({'train' if value.training else 'eval'})"
    if isinstance(value, Mapping):
        return _contents(value, [f"{key!s}: {told(item, depth + 1)}" for key, item in _first(value.items(), depth)])
    if isinstance(value, (list, tuple, set, frozenset)):
        names = getattr(value, "_fields", ())
        items = [told(item, depth + 1) for item in _first(value, depth)]
        return _contents(value, [f"{n}={i}" for n, i in zip(names, items)] if names else items)
    if isinstance(value, (bool, int, float, complex, str, bytes, type(None))):
        text = repr(value)
        return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return type(value).__name__


def _first(items: Any, depth: int) -> list[Any]:
    return [] if depth >= _DEPTH else [item for item, _ in zip(items, range(_SHOWN))]


def _contents(value: Any, shown: list[str]) -> str:
    kind = "" if type(value) in (list, tuple, dict) else type(value).__name__
    more = [f"… {len(value)} in all"] if len(value) > len(shown) else []
    return f"{kind}{'{' if isinstance(value, Mapping) else '('}{', '.join([*shown, *more])}" + (
        "}" if isinstance(value, Mapping) else ")"
    )


def tensor_told(tensor: Tensor) -> str:
    """`(8, 5) float32 cpu grad, -1.2 to 3.4, mean 0.1, 3 NaN`: one wait for the device at most."""
    words = [str(tuple(tensor.shape)), str(tensor.dtype).removeprefix("torch."), str(tensor.device)]
    if tensor.requires_grad:
        words.append("grad")
    head = " ".join(words)
    if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized or not tensor.numel():
        return head
    values = tensor.detach()
    values = values.abs() if values.is_complex() else values
    wide = values.float() if values.dtype not in (torch.float64, torch.int64) else values.double()
    finite = wide.isfinite()
    kept = wide.where(finite, wide.new_zeros(()))
    count = finite.sum()
    facts = torch.stack(
        [
            wide.where(finite, wide.new_full((), math.inf)).min().double(),
            wide.where(finite, wide.new_full((), -math.inf)).max().double(),
            kept.double().sum() / count.clamp_min(1),
            wide.isnan().sum().double(),
            wide.isposinf().sum().double(),
            wide.isneginf().sum().double(),
        ]
    )
    low, high, mean, nan, above, below = facts.tolist()
    said = [head]
    if low <= high:
        said.append(f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}, mean {mean:.3g}")
    said += [f"{number:,.0f} {name}" for number, name in ((nan, "NaN"), (above, "inf"), (below, "-inf")) if number]
    return ", ".join(said)
