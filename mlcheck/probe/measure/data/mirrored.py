"""Whether a number of the target is a place in its picture: flipping the picture turns it into its opposite.

Such a number is an odd function of the picture under the flip, about some middle, so that the difference of a picture
and its mirror image tells it. How well is measured by ridge regression, on samples that the fit has not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mlcheck.probe.measure.data.flips import MOVES
from mlcheck.probe.measure.tree import leaves

FEW = 50
MOST = 1000
FOLDS = 5
_SIDE = 16
_MOST_FEATURES = 512
_PENALTY = 0.01


@dataclass(frozen=True, slots=True)
class Place:
    """A column of a target, the share of its variance that the mirrored difference tells, and of how many samples."""

    column: int
    share: float
    samples: int


def told_by_mirror(batches: list[Any], picture: str, target: str, move: str) -> Place | None:
    """The column told best; None without pictures (samples, channels, height, width) and a target of numbers."""
    found = [(dict(leaves(batch)).get(picture), dict(leaves(batch)).get(target)) for batch in batches]
    pairs = [(x, y) for x, y in found if x is not None and y is not None and x.ndim == 4 and len(x) == len(y)]
    if not pairs or len({(x.shape[1:], y.shape[1:]) for x, y in pairs}) != 1 or pairs[0][1].ndim > 2:
        return None
    x = _difference(torch.cat([x.detach().cpu() for x, _ in pairs])[:MOST].float(), move)
    y = torch.cat([y.detach().cpu() for _, y in pairs])[:MOST].float().reshape(len(x), -1)
    if len(x) < FEW or not bool(y.isfinite().all()) or not bool(x.isfinite().all()):
        return None
    shares = _shares_told(x.double(), y.double())
    best = int(shares.argmax())
    return Place(best, float(shares[best]), len(x))


def _difference(pictures: Tensor, move: str) -> Tensor:
    """Pictures less their mirror images, as their means over rows and over columns: of a symmetric scene nothing."""
    odd = pictures - MOVES[move](pictures)
    profiles = [F.adaptive_avg_pool1d(odd.mean(dim), min(_SIDE, odd.mean(dim).shape[-1])) for dim in (-1, -2)]
    return torch.cat(profiles, dim=2).flatten(1)[:, :_MOST_FEATURES]


def _shares_told(x: Tensor, y: Tensor) -> Tensor:
    """Of each column of `y`: one less the squared error of held-out samples over their variance."""
    gram_scale = x.pow(2).sum() / x.shape[1]
    fold = torch.randperm(len(x), generator=torch.Generator().manual_seed(0)) % FOLDS
    left = torch.zeros_like(y)
    for held in range(FOLDS):
        inside, outside = fold != held, fold == held
        middle = y[inside].mean(0)
        gram = x[inside].T @ x[inside] + _PENALTY * gram_scale * torch.eye(x.shape[1], dtype=x.dtype)
        weights = torch.linalg.solve(gram, x[inside].T @ (y[inside] - middle))
        left[outside] = y[outside] - middle - x[outside] @ weights
    total = (y - y.mean(0)).pow(2).sum(0)
    shares = 1 - left.pow(2).sum(0) / total
    return torch.where(total > 0, shares, torch.zeros_like(total))
