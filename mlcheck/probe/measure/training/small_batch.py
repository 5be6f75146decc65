"""A few distinct samples of a real batch, to be memorised."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from mlcheck.probe.measure.drive import first_batches, inconclusive
from mlcheck.probe.measure.tree import batch_size, leaves, map_tensors, rows
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

SAMPLES = 16


def small_batch(trial: Trial) -> tuple[Any, int]:
    """Up to 16 distinct samples of a real batch; the whole batch where samples cannot be told apart.

    Raises NotMeasured for a program that gives itself another batch every time.
    """
    if not trial.repeats_batches:
        own = "the program draws its batches itself, others every time: none can be had twice"
        together = "its steps take batches of several loaders, each its own: none can be given to them twice"
        raise inconclusive(own if trial.draws_batches else together)
    batch = first_batches(trial, 1)[0]
    size = batch_size(batch)
    if size is None:
        return batch, max((tensor.shape[0] for _, tensor in leaves(batch) if tensor.ndim), default=1)
    whole = torch.arange(size)
    index = _distinct(batch, size)[:SAMPLES]
    small = rows(batch, index)
    try:
        with restored(trial):
            trial.train_step(map_tensors(small, torch.Tensor.clone), 0)
    except Exception:  # a loop that insists on its batch size keeps it
        return rows(batch, whole), size
    return small, len(index)


def _distinct(batch: Any, size: int) -> Tensor:
    filled = [tensor.detach().cpu() for _, tensor in leaves(batch) if tensor.numel()]
    flat = torch.cat([tensor.reshape(size, -1).double() for tensor in filled], dim=1)
    _, group = torch.unique(flat, dim=0, return_inverse=True)
    seen: set[int] = set()
    return torch.tensor([i for i, g in enumerate(group.tolist()) if not (g in seen or seen.add(g))])  # type: ignore[func-returns-value]
