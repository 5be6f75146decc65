"""Pictures of two splits that lie over one another: tiles cut out of one larger picture, closer than they are wide."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mlcheck.probe.measure.data.sketches import channels_first
from mlcheck.probe.measure.data.split import Split

FEW = 30
SMALLEST = 16
MOST_ASKED = 200
LEAST_SHARED = 8  # of a picture at least an eighth
_CANDIDATES = 4
_FACTOR = np.uint64(0x9E3779B97F4A7C15)

Pictures = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class SharedTiles:
    """`found` of `asked` validation pictures hold, moved by `offset` rows and columns, a part of a training picture."""

    asked: int
    found: int
    offset: tuple[int, int]


def shared_tiles(training: Split, validation: Split) -> SharedTiles | None:
    """None where samples are no pictures of one size with fractions. What is turned or mirrored is recognised."""
    known, asked = _pictures(training), _pictures(validation)
    if known is None or asked is None or known.shape[1:] != asked.shape[1:]:
        return None
    length = max(8, known.shape[2] // 4)
    hashes, told_apart = _strips(known, length)
    places = np.flatnonzero(told_apart)
    order = places[np.argsort(hashes.ravel()[places], kind="stable")]
    index = _Index(known, hashes.ravel()[order], order, hashes.shape, length)
    offsets = [index.offset(picture) for picture in asked[:MOST_ASKED]]
    found = [offset for offset in offsets if offset is not None]
    return SharedTiles(len(offsets), len(found), found[0] if found else (0, 0))


def _pictures(split: Split) -> Pictures | None:
    """(samples, height, width): the first channel."""
    drawn = [channels_first(sample.detach().cpu()) for sample in split.kept.values()]
    rows: list[Tensor] = [one[0] for one in drawn if one is not None and one.is_floating_point()]
    if len(rows) < max(FEW, len(drawn)) or len({row.shape for row in rows}) != 1 or min(rows[0].shape) < SMALLEST:
        return None
    stacked = torch.stack(rows).float()
    return None if bool((stacked == stacked.round()).all()) else stacked.numpy()


def _strips(pictures: Pictures, length: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """A hash of every horizontal strip, and whether it holds no two equal neighbours."""
    bits = np.ascontiguousarray(pictures).view(np.uint32).astype(np.uint64)
    count = bits.shape[2] - length + 1
    hashes = np.zeros((*bits.shape[:2], count), np.uint64)
    differ = np.ones(hashes.shape, bool)
    for k in range(length):
        hashes = hashes * _FACTOR + bits[:, :, k : k + count]
        if k:
            differ &= bits[:, :, k : k + count] != bits[:, :, k - 1 : k - 1 + count]
    return hashes, differ


@dataclass(frozen=True, slots=True)
class _Index:
    pictures: Pictures
    hashes: np.ndarray[Any, Any]
    order: np.ndarray[Any, Any]
    shape: tuple[int, ...]
    length: int

    def offset(self, asked: Pictures) -> tuple[int, int] | None:
        """By how much a known picture has to be moved to lie over this one, where both are the same."""
        for turned in _turned(asked, self.shape[1]):
            hashes, told_apart = _strips(turned[None], self.length)
            for row in (turned.shape[0] * k // 8 for k in (1, 3, 5, 7)):
                for column in np.flatnonzero(told_apart[0, row])[:: self.length // 2]:
                    for known, y, x in self._with(hashes[0, row, column]):
                        moved = y - row, x - int(column)
                        if moved != (0, 0) and _lies_over(self.pictures[known], turned, *moved):
                            return moved
        return None

    def _with(self, wanted: np.uint64) -> Iterator[tuple[int, int, int]]:
        first = int(np.searchsorted(self.hashes, wanted))
        for place in range(first, min(first + _CANDIDATES, len(self.hashes))):
            if self.hashes[place] != wanted:
                return
            sample, y, x = np.unravel_index(self.order[place], self.shape)
            yield int(sample), int(y), int(x)


def _turned(picture: Pictures, height: int) -> Iterator[Pictures]:
    for mirrored in (picture, picture[:, ::-1]):
        for quarters in range(4):
            turned = np.rot90(mirrored, quarters)
            if turned.shape[0] == height:
                yield np.ascontiguousarray(turned)


def _lies_over(known: Pictures, asked: Pictures, down: int, right: int) -> bool:
    height, width = known.shape
    one = known[max(0, down) : height + min(0, down), max(0, right) : width + min(0, right)]
    other = asked[max(0, -down) : height + min(0, -down), max(0, -right) : width + min(0, -right)]
    if one.size * LEAST_SHARED < known.size or not np.array_equal(one, other):
        return False
    return all(len(np.unique(edge)) > 1 for edge in (one[0], one[-1], one[:, 0], one[:, -1]))
