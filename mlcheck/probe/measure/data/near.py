"""Pairs of samples across two splits that are nearer than samples of this kind come by chance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mlcheck.probe.measure.data.sketches import channels_first
from mlcheck.probe.measure.data.split import Split

NEAR = 0.13
BESIDE = 0.5
NEIGHBOUR = 10
GAP = 3.0
MOST = 0.6
FEW, FEW_ASKED = 100, 40
FEW_DIMENSIONS = 5.0
MOST_ASKED = 4000
BULK = 0.99
BULK_DEVIATIONS = 2.576
BLOWN_UP = 3.0
_CHUNK = 512


@dataclass(frozen=True, slots=True)
class Near:
    """`pairs` are (validation index, training index), the nearest first, none of them equal in every bit.

    `scale` is the median distance of a training sample to its tenth neighbour, `dimension` how many degrees of freedom
    the samples seem to have, `expected` how many pairs as near as these there would be by chance. `isolated` of them
    are twins of one or a few samples, with a gap before the next: among samples that lie closer than others do, as the
    clean ones of a noisy set, the next is but a little farther.
    """

    pairs: tuple[tuple[int, int], ...]
    asked: int
    known: int
    scale: float
    dimension: float
    expected: float
    isolated: int = 0


def near_pairs(training: Split, validation: Split) -> Near | None:
    """None where samples have no sketch of one length, or are too few."""
    known, places = _table(training)
    asked, asked_places = _table(validation)
    if known is None or asked is None or len(known) < FEW or len(asked) < FEW_ASKED:
        return None
    if known.shape[1] != asked.shape[1]:
        return None
    pictures = any(channels_first(sample) is not None for sample in training.kept.values())
    spread = _spread(known)
    varies = spread > (1e-4 * spread.max() if pictures else 1e-6 * known.abs().median(0).values.clamp_min(1e-30))
    if int(varies.sum()) < FEW_DIMENSIONS:
        return None
    scale_by = torch.ones(()) if pictures else spread[varies]
    known, asked = known[:, varies] / scale_by, asked[:MOST_ASKED][:, varies] / scale_by
    around = _distances(known[: MOST_ASKED // 4], known, NEIGHBOUR + 1).values[:, 1:]
    scale = float(around[:, -1].median())
    dimension = _dimension(around)
    if not scale > 0:
        return None
    if (looked := _looks(training, len(varies))) is not None:
        known = torch.cat([known, looked[:, varies] / scale_by])
        places += [index for index, _ in training.looks]
    nearest = _distances(asked, known, NEIGHBOUR + 1)
    distance, twin = nearest.values[:, 0], nearest.indices[:, 0]
    apart = (nearest.values[:, 1:] > GAP * nearest.values[:, :-1]).any(1)
    looks = 1 + len(training.looks) / len(known)
    chance = -math.expm1(-NEIGHBOUR * looks * NEAR**dimension)
    close = (distance < NEAR * scale).nonzero()[:, 0]
    nearest_first = close[distance[close].argsort()].tolist()
    alone = {asked_places[i] for i in nearest_first if apart[i]}
    pairs = [(asked_places[i], places[int(twin[i])]) for i in nearest_first]
    pairs = [pair for pair in pairs if validation.content.get(pair[0]) != training.content.get(pair[1])]
    if not training.varying:
        pairs = _near_beside(pairs, training.beside, validation.beside)
    isolated = sum(mine in alone for mine, _ in pairs)
    return Near(tuple(pairs), len(asked), len(training.sketches), scale, dimension, chance * len(asked), isolated)


def _near_beside(
    pairs: list[tuple[int, int]], known: dict[int, Tensor], asked: dict[int, Tensor]
) -> list[tuple[int, int]]:
    """Those whose other tensors are nearer than any two samples' are: graphs of few edges, say, are alike in these."""
    lengths = {len(row) for split in (known, asked) for row in split.values()}
    if len(lengths) != 1 or len(known) < FEW:
        return pairs
    rows = torch.stack(list(known.values()))
    spread = rows.std(0, correction=0).clamp_min(1e-9)
    apart = float(((rows - rows.roll(1, 0)) / spread).norm(dim=1).median())
    return [
        (mine, theirs)
        for mine, theirs in pairs
        if mine not in asked or theirs not in known
        or float(((asked[mine] - known[theirs]) / spread).norm()) <= BESIDE * apart
    ]  # fmt: skip


def _spread(rows: Tensor) -> Tensor:
    """The standard deviation of each column; of one that a few far values blow up, that of its nearest 99 %."""
    whole = rows.std(0, correction=0)
    distance = (rows - rows.median(0).values).abs()
    most = distance.kthvalue(max(1, int(BULK * len(rows))), dim=0).values / BULK_DEVIATIONS
    return torch.where((most > 0) & (whole > BLOWN_UP * most), most, whole)


def _table(split: Split) -> tuple[Tensor | None, list[int]]:
    lengths = {len(row) for row in split.sketches.values()}
    if len(lengths) != 1:
        return None, []
    return torch.stack(list(split.sketches.values())), list(split.sketches)


def _looks(split: Split, length: int) -> Tensor | None:
    """What augmentation makes of the samples: one that it leaves alone shows its twin."""
    if not split.looks or any(len(row) != length for _, row in split.looks):
        return None
    return torch.stack([row for _, row in split.looks])


def _distances(asked: Tensor, known: Tensor, count: int) -> torch.return_types.topk:
    values, indices = [], []
    for start in range(0, len(asked), _CHUNK):
        found = torch.cdist(asked[start : start + _CHUNK], known, compute_mode="donot_use_mm_for_euclid_dist").topk(
            min(count, len(known)), largest=False
        )
        values.append(found.values)
        indices.append(found.indices)
    return torch.return_types.topk((torch.cat(values), torch.cat(indices)))


def _dimension(around: Tensor) -> float:
    """Levina and Bickel, NeurIPS 2004: the maximum-likelihood intrinsic dimension, its median over samples.

    Where most samples have one neighbour and then a gap, as one in three has by chance along a line, that one is the
    sample itself in another guise and tells nothing of how samples lie; `share` is what the logarithms of the others
    come to, of what they would with it.
    """
    apart = around[around[:, 0] > 0]
    if len(apart) < FEW // 2:
        return 0.0
    twins = int(float((apart[:, 1] > GAP * apart[:, 0]).double().mean()) >= MOST)
    logs = (apart[:, -1:] / apart[:, twins:-1]).log().mean(1)
    ranks = torch.arange(twins + 1, apart.shape[1])
    share = float(((ranks - twins) / ranks).mean())
    return float(share / logs.clamp_min(1e-9).median())
