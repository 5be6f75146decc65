"""The mean and deviation that a data set's own transforms normalise pictures by, to show them as they were."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

_DEPTH = 6
_BYTES = 16


@dataclass(frozen=True, slots=True)
class Normalisation:
    """One number a channel each: a picture was `mean + deviation * x` before."""

    mean: tuple[float, ...]
    deviation: tuple[float, ...]

    def undone(self, pictures: Tensor) -> Tensor | None:
        """(n, channels, height, width) in 0 to 1, or 0 to 255 brought there; None where these are not its numbers."""
        channels = pictures.shape[1]
        if len(self.mean) not in (1, channels) or len(self.deviation) not in (1, channels):
            return None
        shape = (1, -1, 1, 1)
        found = pictures * torch.tensor(self.deviation).reshape(shape) + torch.tensor(self.mean).reshape(shape)
        low, high = float(found.min()), float(found.max())
        scale = 255.0 if max(self.mean) > _BYTES else 1.0
        return (found / scale).clamp(0, 1) if low >= -0.02 * scale and high <= 1.02 * scale else None

    def __str__(self) -> str:
        mean, deviation = (", ".join(f"{v:.3g}" for v in values) for values in (self.mean, self.deviation))
        return f"mean {mean} and deviation {deviation}"


def normalisation(loader: Any) -> Normalisation | None:
    """The one that the loader's data set applies; None without one, or with several."""
    if not isinstance(loader, DataLoader):
        return None
    found = {one for data_set in data_sets(loader) for value in vars(data_set).values() for one in _within(value, 0)}
    return found.pop() if len(found) == 1 else None


def data_sets(loader: DataLoader[Any]) -> Iterator[Any]:
    """The data set of a loader, and those it is a part or a wrapper of."""
    current: Any = loader.dataset
    for _ in range(_DEPTH):
        if not hasattr(current, "__dict__"):
            return
        yield current
        several = getattr(current, "datasets", None)
        current = several[0] if isinstance(several, (list, tuple)) and several else getattr(current, "dataset", None)


def _within(value: Any, depth: int) -> Iterator[Normalisation]:
    """In a transform, in those that it is composed of, or in what it wraps."""
    if depth >= _DEPTH or not callable(value) or isinstance(value, type):
        return
    mean, deviation = _numbers(getattr(value, "mean", None)), _numbers(getattr(value, "std", None))
    if mean and deviation and min(deviation) > 0:
        yield Normalisation(mean, deviation)
        return
    parts = getattr(value, "transforms", None)
    if isinstance(parts, (list, tuple, torch.nn.ModuleList)):
        for part in parts:
            yield from _within(part, depth + 1)
    inner = getattr(value, "transform", None)
    if inner is not None and inner is not value:
        yield from _within(inner, depth + 1)


def _numbers(value: Any) -> tuple[float, ...]:
    """A few numbers, however they are held; none for anything else, a method named `mean` among it."""
    if callable(value) and not isinstance(value, Tensor):
        return ()
    try:
        flat = torch.as_tensor(value, dtype=torch.float64).flatten().tolist()
    except (TypeError, ValueError, RuntimeError):
        return ()
    return tuple(flat) if 1 <= len(flat) <= 8 else ()
