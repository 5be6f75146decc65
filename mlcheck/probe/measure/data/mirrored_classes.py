"""Whether a flip or a turn makes pictures of one class look like those of another: a b like a d, left like right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mlcheck.probe.measure.data.flips import MOVES
from mlcheck.probe.measure.data.neighbours import MOST, NEIGHBOURS, features
from mlcheck.probe.measure.tree import leaves

_FEW = 15
_NEARLY_ALL = 0.9


@dataclass(frozen=True, slots=True)
class Exchanged:
    """Of `judged` pictures of the class `one`, moved, `other_like` have neighbours of the class `other` alone."""

    one: int
    other: int
    judged: int
    other_like: int


def exchanged_class(batches: list[Any], picture: str, label: str, move: str) -> Exchanged | None:
    """The class that this is clearest of, among pictures that are not augmented; None where it is of no class."""
    moved = [_with(batch, picture, move) for batch in batches]
    plain, turned = features(batches, label), features([batch for batch in moved if batch], label)
    if plain is None or turned is None or plain[0].shape != turned[0].shape:
        return None
    x, y, z = plain[0][:MOST], plain[1][:MOST], turned[0][:MOST]
    if len(y) <= NEIGHBOURS:
        return None
    spread = x.std(0, correction=0)
    varies = spread > 1e-3 * spread.max()
    x, z = (part[:, varies] / spread[varies] for part in (x, z))
    before, after = _said(x, x, y), _said(z, x, y)
    found = []
    for one in torch.unique(y[y >= 0]).tolist():
        mine = (y == one) & (before == one) & (after >= 0)
        counts = after[mine].bincount() if bool(mine.any()) else torch.zeros(1)
        other = int(counts.argmax())
        if other != one and int(mine.sum()) >= _FEW and counts[other] >= _NEARLY_ALL * mine.sum():
            found.append(Exchanged(one, other, int(mine.sum()), int(counts[other])))
    return max(found, key=lambda one: one.judged, default=None)


def _said(rows: Tensor, known: Tensor, labels: Tensor) -> Tensor:
    """The label of nearly all neighbours (4 of 5) that are other samples, -1 where they do not agree."""
    near = labels[torch.cdist(rows, known).fill_diagonal_(float("inf")).topk(NEIGHBOURS, largest=False).indices]
    winner = near.mode(1).values
    return torch.where((near == winner[:, None]).sum(1) >= NEIGHBOURS - 1, winner, -1)


def _with(batch: Any, picture: str, move: str) -> dict[str, Tensor] | None:
    """The tensors of a batch, that of the pictures (samples, channels, height, width) moved."""
    tensors = dict(leaves(batch))
    pictures = tensors.get(picture)
    if pictures is None or pictures.ndim != 4:
        return None
    turned = MOVES[move](pictures)
    return {**tensors, picture: turned} if turned.shape == pictures.shape else None
