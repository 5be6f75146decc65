"""Whole numbers that are others at each read: the negatives of a recommender, which are no form of the sample."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

_MOST_SHARED = 0.5


@dataclass(slots=True)
class Redrawn:
    """Which share of the numbers of one reading stands in the other one too, tensor by tensor.

    What crops, shuffles, masks or shifts a sequence leaves most of its numbers in it.
    """

    _shares: dict[str, list[float]] = field(default_factory=dict)

    def compare(self, first: list[tuple[str, Tensor]], second: list[tuple[str, Tensor]]) -> None:
        for (name, one), (_, other) in zip(first, second):
            if _are_ids(one) and _are_ids(other):
                numbers, others = set(one.flatten().tolist()), set(other.flatten().tolist())
                shared = len(numbers & others) / min(len(numbers), len(others))
                self._shares.setdefault(name, []).append(shared)

    def is_anew(self, name: str) -> bool:
        shares = self._shares.get(name, [])
        return bool(shares) and sum(shares) / len(shares) < _MOST_SHARED


def _are_ids(tensor: Tensor) -> bool:
    """Whole numbers of more than a byte, which is a picture's."""
    whole = not (tensor.is_floating_point() or tensor.is_complex())
    return whole and tensor.element_size() > 1 and tensor.numel() > 1
