"""Whether two views of a sample are nearer to each other, as numbers, than to those of other samples."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mlcheck.probe.measure.tree import leaves

MOST = 1000


@dataclass(frozen=True, slots=True)
class Mates:
    """How far the mean rank of a view's own mate, among all, lies above chance: in standard deviations, of `pairs`."""

    pairs: int
    deviations: float

    @property
    def nearer(self) -> float:
        """The share of other samples' views that lie farther from a view than its own mate: a half by chance."""
        return 0.5 + self.deviations / math.sqrt(12 * self.pairs)


def mates(batches: Iterable[Any], one: str, other: str) -> Mates | None:
    """By distance and by correlation, whichever tells more; None where the two are not there in every batch."""
    found = [dict(leaves(batch)) for batch in batches]
    if not found or not all(one in tensors and other in tensors for tensors in found):
        return None
    views = [torch.cat([tensors[name].detach().cpu().flatten(1) for tensors in found])[:MOST] for name in (one, other)]
    mine, theirs = (view.double().nan_to_num(0.0, 0.0, 0.0) for view in views)
    if mine.shape != theirs.shape or len(mine) < 2:
        return None
    told = max(_rank(torch.cdist(*_scaled(mine, theirs))), _rank(-_centred(mine) @ _centred(theirs).T))
    return Mates(len(mine), told)


def _scaled(one: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """Both in units of the columns' spread."""
    spread = torch.cat([one, other]).std(0).clamp_min(1e-12)
    return one / spread, other / spread


def _centred(view: Tensor) -> Tensor:
    view = view - view.mean(0)
    return torch.nn.functional.normalize(view - view.mean(1, keepdim=True), dim=1)


def _rank(distances: Tensor) -> float:
    """Ranks of unrelated mates are uniform: their mean has a variance of 1/12 of a sample's."""
    own = distances.diagonal()[:, None]
    count = len(distances)
    ranks = ((distances < own).sum(1) + 0.5 * ((distances == own).sum(1) - 1)) / (count - 1)
    return (0.5 - float(ranks.mean())) * math.sqrt(12 * count)
