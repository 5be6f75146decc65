"""Whether a mask lies over its picture: how much of the pixels' variance it accounts for, as it is and moved.

The share is that of one-way analysis of variance (eta squared), of all channels together, sample by sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mlcheck.probe.measure.tree import leaves

MOST = 200
FEW_PIXELS = 8
PLAIN = 0.1
TIMES = 3.0
MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "flipped left to right": lambda x: x.flip(-1),
    "flipped upside down": lambda x: x.flip(-2),
    "turned by 180 degrees": lambda x: x.flip(-1, -2),
    "transposed": lambda x: x.transpose(-2, -1),
    "turned by 90 degrees": lambda x: x.rot90(1, (-2, -1)),
    "turned by 270 degrees": lambda x: x.rot90(3, (-2, -1)),
}


@dataclass(frozen=True, slots=True)
class Alignment:
    """The share of variance that `mask` accounts for in `picture`: as it is, and as the best of the moves.

    `better` is the part of the samples in which the move accounts for more, of those it changes; `samples` are these.
    `only_moved` counts those that plainly fit when moved and not as they are, `as_is` those of which the reverse holds,
    and `by_chance` those that another sample's mask, moved, fits as plainly.
    """

    picture: str
    mask: str
    given: float
    move: str
    moved: float
    better: float
    samples: int
    only_moved: int
    as_is: int
    by_chance: int


def alignment(batches: list[Any], inputs: tuple[str, ...], targets: tuple[str, ...]) -> Alignment | None:
    """Of the first picture (samples, channels, height, width) and the first mask of its size: classes, or 0 and 1."""
    for picture, mask in _named(batches, inputs, targets):
        pairs = [
            pair
            for batch in batches
            for pair in zip(dict(leaves(batch))[picture], flat(dict(leaves(batch))[mask]), strict=False)
        ]
        return _judged(picture, mask, pairs[:MOST])
    return None


def _named(batches: list[Any], inputs: tuple[str, ...], targets: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    first = dict(leaves(batches[0])) if batches else {}
    for picture in (name for name in inputs if name in first and first[name].ndim == 4):
        size = first[picture].shape[2:]
        for name in (name for name in targets if name in first and is_mask(first[name])):
            if flat(first[name]).shape == (len(first[picture]), *size) and min(size) >= FEW_PIXELS:
                yield picture, name


def is_mask(tensor: Tensor) -> bool:
    return not tensor.is_floating_point() or bool(((tensor == 0) | (tensor == 1)).all())


def flat(mask: Tensor) -> Tensor:
    return mask[:, 0] if mask.ndim == 4 and mask.shape[1] == 1 else mask


def _judged(picture: str, mask: str, pairs: list[tuple[Tensor, Tensor]]) -> Alignment | None:
    pairs = [(one.detach().cpu().double(), other.cpu()) for one, other in pairs if bool((other != other[0, 0]).any())]
    given = torch.tensor([share(one, other) for one, other in pairs])
    best: Alignment | None = None
    for name, move in MOVES.items():
        moved = [(one, move(other), other) for one, other in pairs]
        if any(turned.shape != other.shape for _, turned, other in moved):
            continue
        changed = torch.tensor([not torch.equal(turned, other) for _, turned, other in moved])
        shares = torch.tensor([share(one, turned) for one, turned, _ in moved])
        if not bool(changed.any()):
            continue
        before, after = given[changed], shares[changed]
        better = float((after > before).double().mean())
        strangers = [(one, turned) for (one, _, _), (_, turned, _) in zip(moved, moved[1:] + moved[:1])]
        found = Alignment(
            picture,
            mask,
            float(before.mean()),
            name,
            float(after.mean()),
            better,
            len(before),
            only_moved=_plainly(after, before),
            as_is=_plainly(before, after),
            by_chance=_plainly(torch.tensor([share(one, turned) for one, turned in strangers])[changed], before),
        )
        best = found if best is None or found.moved > best.moved else best
    return best


def _plainly(shares: Tensor, others: Tensor) -> int:
    return int(((shares >= PLAIN) & (shares >= TIMES * others)).sum())


def share(picture: Tensor, mask: Tensor) -> float:
    pixels, classes = picture.flatten(1), mask.flatten()
    total = float((pixels - pixels.mean(1, keepdim=True)).pow(2).sum())
    between = 0.0
    for value in torch.unique(classes):
        inside = pixels[:, classes == value]
        between += inside.shape[1] * float((inside.mean(1) - pixels.mean(1)).pow(2).sum())
    return between / total if total > 0 else 0.0
