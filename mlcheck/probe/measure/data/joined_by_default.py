"""Whether torch's default collate function joins samples as they come."""

from __future__ import annotations

from typing import Any

from torch.utils.data import BatchSampler, default_collate


def joins_any_samples(loader: Any) -> bool:
    """Not where batches hold one sample, nor where the program's own sampler chooses which samples meet (by length)."""
    batches = loader.batch_sampler
    while hasattr(batches, "batch_sampler"):
        batches = batches.batch_sampler
    return loader.collate_fn is default_collate and type(batches) is BatchSampler and batches.batch_size > 1
