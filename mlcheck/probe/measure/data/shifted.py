"""Whether the targets of a data set go with the inputs some places before or after them, and not with their own.

Samples are read in the order of the data set. Where inputs lie near each other, their targets should; the same is asked
of the targets one, two and three places on, each against permutations of the targets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

FEW = 100
NEIGHBOURS = 3
PERMUTATIONS = 200
MOST_NUMBERS = 8
OFFSETS = (0, -3, -2, -1, 1, 2, 3)
_CHANCE, _CERTAIN = 2.0, 8.0  # standard deviations
_SIDE = 12
_MOST_FEATURES = 4096


@dataclass(frozen=True, slots=True)
class Shift:
    """How many standard deviations of chance targets and inputs go together better than at random.

    With their own targets `own`, with those `offset` places later `best`, with the next best of the others `next`.
    """

    target: str
    samples: int
    offset: int
    own: float
    best: float
    next: float

    @property
    def is_certain(self) -> bool:
        """Whether those of one offset go together far above chance, and their own, and all others, do not."""
        return self.own <= _CHANCE and self.best >= _CERTAIN and self.next <= self.best / 2


def shifts(samples: Sequence[Mapping[str, Tensor]], inputs: Sequence[str], targets: Sequence[str]) -> list[Shift]:
    """One for each target of a few numbers; `samples` are consecutive ones of a data set, by the names of a batch."""
    x = _features(samples, inputs)
    if x is None or len(x) < FEW:
        return []
    near = torch.cdist(x, x).fill_diagonal_(float("inf")).topk(NEIGHBOURS, largest=False).indices
    columns = ((name, _numbers(samples, name)) for name in targets)
    return [
        by_offset(name, len(y), {offset: _score(near, y, offset) for offset in OFFSETS})
        for name, y in columns
        if y is not None
    ]


def _features(samples: Sequence[Mapping[str, Tensor]], inputs: Sequence[str]) -> Tensor | None:
    """One row a sample, every column of the same spread; None without an input of one size and more than one number."""
    names = [name for name in inputs if samples and name in samples[0] and samples[0][name].is_floating_point()]
    parts = []
    for name in names:
        values = [sample[name] for sample in samples if name in sample]
        if len(values) < len(samples) or len({value.shape for value in values}) > 1 or values[0].numel() < 2:
            continue
        stacked = torch.stack([value.detach().cpu().float() for value in values]).nan_to_num(0.0, 0.0, 0.0)
        while stacked.ndim == 4 and min(stacked.shape[2:]) > _SIDE:
            stacked = F.avg_pool2d(stacked, 2)
        parts.append(stacked.flatten(1))
    if not parts or sum(part.shape[1] for part in parts) > _MOST_FEATURES:
        return None
    x = torch.cat(parts, dim=1)
    spread = x.std(0, correction=0)
    return x[:, spread > 0] / spread[spread > 0] if bool((spread > 0).any()) else None


def _numbers(samples: Sequence[Mapping[str, Tensor]], name: str) -> Tensor | None:
    """The target as columns of unit spread, a class as one column of each; None for what varies in size or is large."""
    values = [sample[name].detach().cpu().flatten() for sample in samples if name in sample]
    if (
        len(values) < len(samples)
        or len({len(value) for value in values}) > 1
        or not 1 <= len(values[0]) <= MOST_NUMBERS
    ):
        return None
    y = torch.stack(values)
    if not y.is_floating_point() and y.shape[1] == 1:
        found = torch.unique(y)
        y = (y == found[None]) if len(found) <= len(y) // 10 else y
    y = y.double()
    spread = y.std(0, correction=0)
    if not bool(y.isfinite().all()) or not bool((spread > 0).any()):
        return None
    return y[:, spread > 0] / spread[spread > 0]


def by_offset(name: str, samples: int, scores: Mapping[int, float]) -> Shift:
    best = max(OFFSETS[1:], key=scores.__getitem__)
    others = max(scores[offset] for offset in OFFSETS if offset not in (0, best))
    return Shift(name, samples, best, scores[0], scores[best], others)


def _score(near: Tensor, y: Tensor, offset: int) -> float:
    """Standard deviations below the mean squared difference from the neighbours under permuted targets."""
    later = torch.roll(y, -offset, 0)
    generator = torch.Generator().manual_seed(0)
    null = [_distance(near, later[torch.randperm(len(y), generator=generator)]) for _ in range(PERMUTATIONS)]
    chance = torch.tensor(null, dtype=torch.float64)
    return float((chance.mean() - _distance(near, later)) / chance.std().clamp_min(1e-12))


def _distance(near: Tensor, y: Tensor) -> float:
    return float((y - y[near].mean(1)).pow(2).mean())
