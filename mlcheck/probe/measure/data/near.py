"""Pairs of samples across two splits that are nearer than samples of this kind come by chance; windows that overlap."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mlcheck.probe.measure.data.samples import Split
from mlcheck.probe.measure.data.sketches import channels_first

NEAR = 0.13
BESIDE = 0.5
NEIGHBOUR = 10
FEW = 100
FEW_DIMENSIONS = 5.0
MOST_ASKED = 4000
BULK = 0.99
BULK_DEVIATIONS = 2.576
BLOWN_UP = 3.0
_CHUNK = 512
_MOST_WINDOWS = 400_000


@dataclass(frozen=True, slots=True)
class Near:
    """`pairs` are (validation index, training index), the nearest first, none of them equal in every bit.

    `scale` is the median distance of a training sample to its tenth neighbour, `dimension` how many degrees of freedom
    the samples seem to have, `expected` how many pairs as near as these there would be by chance.
    """

    pairs: tuple[tuple[int, int], ...]
    asked: int
    known: int
    scale: float
    dimension: float
    expected: float


def near_pairs(training: Split, validation: Split) -> Near | None:
    """None where samples have no sketch of one length, or are too few."""
    known, places = _table(training)
    asked, asked_places = _table(validation)
    if known is None or asked is None or known.shape[1] != asked.shape[1] or min(len(known), len(asked)) < FEW:
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
    nearest = _distances(asked, known, 1)
    distance, twin = nearest.values[:, 0], nearest.indices[:, 0]
    looks = 1 + len(training.looks) / len(known)
    chance = -math.expm1(-NEIGHBOUR * looks * NEAR**dimension)
    close = (distance < NEAR * scale).nonzero()[:, 0]
    nearest_first = close[distance[close].argsort()].tolist()
    pairs = [(asked_places[i], places[int(twin[i])]) for i in nearest_first]
    pairs = [pair for pair in pairs if validation.content.get(pair[0]) != training.content.get(pair[1])]
    if not training.varying:
        pairs = _near_beside(pairs, training.beside, validation.beside)
    return Near(tuple(pairs), len(asked), len(training.sketches), scale, dimension, chance * len(asked))


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
    """Levina and Bickel, NeurIPS 2004: the maximum-likelihood intrinsic dimension, its median over samples."""
    apart = around[around[:, 0] > 0]
    if len(apart) < FEW // 2:
        return 0.0
    logs = (apart[:, -1:] / apart[:, :-1]).log().mean(1)
    return float(1 / logs.clamp_min(1e-9).median())


def shared_windows(training: Split, validation: Split) -> tuple[float, int] | None:
    """The share of validation samples that hold a stretch of a training sample, at another place, and its length.

    Of the share is taken off twice that of those which hold such a stretch read backwards: values of few levels meet by
    chance, in either direction.
    What comes at the same place in both may be the columns of a table, few values each, and no time at all.
    None where samples are no sequences of one length, or hold too few different numbers to tell stretches apart.
    """
    mine, theirs = _sequences(training), _sequences(validation)
    if mine is None or theirs is None or mine.shape[1] != theirs.shape[1] or min(len(mine), len(theirs)) < FEW:
        return None
    length = mine.shape[1]
    stretch = max(5, length // 4) if mine.dtype.kind == "f" else max(20, length // 2)
    if stretch > length or not _tells_apart(mine, stretch):
        return None
    fits = max(1, _MOST_WINDOWS // (length - stretch + 1))
    known = _windows(mine[:fits], stretch)
    forwards, backwards = (_share(rows, known, stretch) for rows in (theirs[:fits], theirs[:fits, ::-1]))
    return forwards - 2 * backwards, stretch


def _share(rows: np.ndarray[Any, Any], known: np.ndarray[Any, Any], stretch: int) -> float:
    asked = _windows(rows, stretch)
    found = _moved(asked, known, rows.shape[1] - stretch + 1) & _varied(asked)
    return float(found.reshape(len(rows), -1).any(1).mean())


def _sequences(split: Split) -> np.ndarray[Any, Any] | None:
    """(samples, length): the first feature along the longer axis of what is no picture."""
    rows = []
    for sample in split.kept.values():
        values = sample.detach().cpu()
        if values.ndim == 2 and min(values.shape) <= 4 * 8:
            values = values[0] if values.shape[0] < values.shape[1] else values[:, 0]
        if values.ndim != 1 or values.is_complex() or values.dtype is torch.bool:
            return None
        rows.append(values.double() if values.is_floating_point() else values.long())
    if not rows or len({row.shape for row in rows}) != 1 or rows[0].numel() < 8:
        return None
    return torch.stack(rows).numpy()


def _tells_apart(rows: np.ndarray[Any, Any], stretch: int) -> bool:
    """Whether most samples begin with a stretch that does not come twice by chance."""
    return bool(_varied(rows[:200, :stretch]).mean() >= 0.5)


def _varied(windows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Which windows hold enough different values: one-hot columns and runs of padding are alike in any data.

    So are a few tokens in front of padding. Of tokens no one may fill half a window.
    """
    ordered = np.sort(windows, axis=1)
    different = 1 + (ordered[:, 1:] != ordered[:, :-1]).sum(1)
    if windows.dtype.kind == "f":
        enough: np.ndarray[Any, Any] = different >= windows.shape[1] - 1
        return enough
    half = windows.shape[1] // 2
    mixed: np.ndarray[Any, Any] = (different >= 4) & ~(ordered[:, half:] == ordered[:, :-half]).any(1)
    return mixed


def _moved(asked: np.ndarray[Any, Any], known: np.ndarray[Any, Any], places: int) -> np.ndarray[Any, Any]:
    """Which windows are known from another of the `places` of a sample, and not from their own."""
    mine, theirs = _as_items(asked), _as_items(known)
    found = np.isin(mine, theirs)
    for place in range(places):
        found[place::places] &= ~np.isin(mine[place::places], theirs[place::places])
    return found


def _windows(rows: np.ndarray[Any, Any], stretch: int) -> np.ndarray[Any, Any]:
    windows = np.lib.stride_tricks.sliding_window_view(rows, stretch, axis=1).reshape(-1, stretch)
    return np.ascontiguousarray(windows)


def _as_items(windows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Each window as one item that compares as a whole."""
    return windows.view(np.dtype((np.void, windows.dtype.itemsize * windows.shape[1])))[:, 0]
