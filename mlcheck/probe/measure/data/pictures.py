"""Samples as pictures, where they are some."""

from __future__ import annotations

from torch import Tensor

from mlcheck.core.finding import Figure
from mlcheck.probe.measure.data.gallery import picture_of

PAIRS = 8


def pairs(
    title: str, one: dict[int, Tensor], other: dict[int, Tensor], twins: list[tuple[int, int]]
) -> tuple[Figure, ...]:
    """Tiles of samples side by side, empty where they are no pictures or were not kept."""
    tiles = []
    for mine, theirs in twins:
        if mine not in one or theirs not in other:
            continue
        left, right = picture_of(one[mine]), picture_of(other[theirs])
        if left and right:
            tiles += [{"png": left, "caption": f"{mine}"}, {"png": right, "caption": f"= {theirs}"}]
        if len(tiles) >= 2 * PAIRS:
            break
    return (Figure("images", title, {"tiles": tiles}),) if tiles else ()
