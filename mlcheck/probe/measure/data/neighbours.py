"""Whether samples that look alike have the same label: nearest neighbours within a split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mlcheck.probe.measure.tree import leaves

NEIGHBOURS = 5
MOST = 2000
_MOST_FEATURES = 1024
_BUCKETS = 512

Split = tuple[Tensor, Tensor]
"""One row of features and one label a sample."""


def features(batches: list[Any], label: str) -> Split | None:
    """One row of features and one label a sample; None where samples have no common size.

    Pictures are shrunk, token ids counted; what is not a single number a sample and not the label is put side by side.
    """
    found = table(batches, label)
    return (found[0], found[1].flatten()) if found and len(found[1].flatten()) == len(found[0]) else None


def table(batches: list[Any], label: str) -> Split | None:
    """The same with labels of any number a sample."""
    rows, labels = [], []
    for batch in batches:
        tensors = dict(leaves(batch))
        target = tensors.pop(label, None)
        if target is None or not target.ndim:
            return None
        parts = [_flat(tensor) for tensor in tensors.values() if tensor.ndim > 1 and len(tensor) == len(target)]
        if not parts or any(part is None for part in parts):
            return None
        rows.append(torch.cat([part for part in parts if part is not None], dim=1))
        labels.append(target.long())
    if not rows or len({row.shape[1] for row in rows}) != 1 or len({tuple(one.shape[1:]) for one in labels}) != 1:
        return None
    return torch.cat(rows), torch.cat(labels)


def _flat(tensor: Tensor) -> Tensor | None:
    values = tensor.detach().cpu()
    if not values.is_floating_point():
        if values.ndim != 2 or values.dtype is torch.bool:
            return None
        counts = torch.zeros(len(values), _BUCKETS)
        return F.normalize(counts.scatter_add_(1, values.long() % _BUCKETS, torch.ones(values.shape)))
    if values.ndim == 4:
        while values.shape[1:].numel() > _MOST_FEATURES and min(values.shape[2:]) > 1:
            values = F.avg_pool2d(values.float(), 2)
    flat = values.flatten(1).float().nan_to_num(0.0, 0.0, 0.0)
    return flat if flat.shape[1] <= 8 * _MOST_FEATURES else None


@dataclass(frozen=True, slots=True)
class Consensus:
    """Samples whose neighbours nearly all (4 of 5) have one label, and how many of them have another.

    `suspects` are places of the latter in the pass, `said` the label that their neighbours have.
    """

    samples: int
    judged: int
    suspects: tuple[int, ...]
    said: tuple[int, ...] = ()

    @property
    def share(self) -> float:
        return len(self.suspects) / self.judged if self.judged else 0.0


def consensus(split: Split, ignored: int = -1) -> Consensus:
    """Edited nearest neighbours (Wilson, 1972), on the first 2,000 samples, without those that have no label.

    A label below 0 stands for none, as does the one that the loss leaves out.
    """
    x, y = split[0][:MOST], split[1][:MOST]
    places = ((y >= 0) & (y != ignored)).nonzero()[:, 0].to(x.device)
    x, y = x[places], y[places]
    if len(y) <= NEIGHBOURS:
        return Consensus(len(y), 0, ())
    spread = x.std(0, correction=0)
    positive = spread[spread > 0]
    varies = spread > 1e-3 * (positive.median() if len(positive) else 0.0)  # one far value widens its column alone
    x = x[:, varies] / spread[varies]
    near = y[torch.cdist(x, x).fill_diagonal_(float("inf")).topk(NEIGHBOURS, largest=False).indices]
    winner = near.mode(1).values
    agreed = (near == winner[:, None]).sum(1) >= NEIGHBOURS - 1
    suspects = (agreed & (winner != y)).nonzero()[:, 0]
    return Consensus(len(y), int(agreed.sum()), tuple(places[suspects].tolist()), tuple(winner[suspects].tolist()))
