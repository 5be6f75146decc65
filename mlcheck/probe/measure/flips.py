"""Whether what belongs to a picture, a mask or boxes, moves along where augmentation flips or turns the picture."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

_ALIKE = 0.95
_OTHER = 0.8
_SMALLEST = 4
_PLACES = ("box", "keypoint", "landmark")
Sample = list[tuple[str, Tensor]]

_MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "flipped left to right": lambda x: x.flip(-1),
    "flipped upside down": lambda x: x.flip(-2),
    "turned by 180 degrees": lambda x: x.flip(-1, -2),
    "turned by 90 degrees": lambda x: x.rot90(1, (-2, -1)),
    "turned by 270 degrees": lambda x: x.rot90(3, (-2, -1)),
    "transposed": lambda x: x.transpose(-2, -1),
}


@dataclass(slots=True)
class Flips:
    """Pairs of reads of one sample in which `picture` was moved as `how` says, by the name of what stayed in place.

    `alone` counts them, `together` holds the names of what was seen to change: what moves now and then is left alone.
    """

    alone: dict[str, int] = field(default_factory=dict)
    how: dict[str, tuple[str, str]] = field(default_factory=dict)
    together: set[str] = field(default_factory=set)

    def compare(self, first: Sample, second: Sample) -> None:
        """Take in two reads of one sample under different random numbers."""
        pairs = [(name, one, other) for (name, one), (_, other) in zip(first, second) if one.shape == other.shape]
        self.together |= {name for name, one, other in pairs if not torch.equal(one, other)}
        for picture, one, other in pairs:
            move = _move(one, other)
            if not move:
                continue
            for name, target, _ in pairs:
                if name not in self.together and name != picture and _must_move(name, target, one, move):
                    self.alone[name] = self.alone.get(name, 0) + 1
                    self.how[name] = (picture, move)

    def left_behind(self) -> Iterator[tuple[str, str, str, int]]:
        """What never moved although its picture did at least twice: its name, the picture's, how, how often."""
        for name, count in self.alone.items():
            if name not in self.together and count > 1:
                yield name, *self.how[name], count


def _move(first: Tensor, second: Tensor) -> str:
    """How the second picture comes from the first, empty where it does not, or by nothing that shows."""
    one, other = _channels_first(first), _channels_first(second)
    if one is None or other is None or _likeness(one, other) > _OTHER:
        return ""
    moves = ((name, move(one)) for name, move in _MOVES.items())
    return next((name for name, moved in moves if moved.shape == other.shape and _likeness(moved, other) > _ALIKE), "")


def _must_move(name: str, target: Tensor, picture: Tensor, move: str) -> bool:
    mask, image = _channels_first(target), _channels_first(picture)
    if mask is not None and image is not None and mask.shape[-2:] == image.shape[-2:]:
        moved = _MOVES[move](mask)
        return moved.shape == mask.shape and not torch.equal(moved, mask)
    return target.is_floating_point() and target.numel() > 1 and any(word in name.lower() for word in _PLACES)


def _channels_first(tensor: Tensor) -> Tensor | None:
    """A picture with its height and width last; None for anything else."""
    if tensor.ndim == 3 and tensor.shape[-1] <= 4 < min(tensor.shape[:2]):
        tensor = tensor.permute(2, 0, 1)
    return tensor if tensor.ndim in (2, 3) and min(tensor.shape[-2:]) >= _SMALLEST else None


def _likeness(one: Tensor, other: Tensor) -> float:
    """The correlation of two pictures; of constant ones 1."""
    a, b = one.double().flatten(), other.double().flatten()
    a, b = a - a.mean(), b - b.mean()
    size = float(a.norm() * b.norm())
    return float(a @ b) / size if size > 0 else 1.0
