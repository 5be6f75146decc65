"""Data sets that the tests of data probes share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from probe_programs import trial_on
from torch.utils.data import Dataset, IterableDataset, TensorDataset


def table(rows: int = 320, seed: int = 1, classes: int = 5) -> TensorDataset:
    """Random features; the class is the largest of the first five."""
    x = torch.randn(rows, 8, generator=torch.Generator().manual_seed(seed))
    return TensorDataset(x, x[:, :classes].argmax(1))


class Changed(Dataset[Any]):
    """A data set with every sample passed through a function of its index."""

    def __init__(self, samples: Dataset[Any], change: Callable[[int, Any], Any]) -> None:
        self._samples, self._change = samples, change

    def __len__(self) -> int:
        return len(self._samples)  # type: ignore[arg-type]

    def __getitem__(self, index: int) -> Any:
        return self._change(index, self._samples[index])


def noisy(index: int, sample: Any) -> Any:
    return sample[0] + torch.randn(8), sample[1]


def streamed(data: IterableDataset[Any]) -> Any:
    return trial_on(data, shuffle=False, num_workers=2)
