"""Whether what belongs to a picture, a mask or boxes, moves along where augmentation flips or turns the picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import torch
from torch import Tensor

_ALIKE = 0.95
_OTHER = 0.8
_SMALLEST = 4
_PLACES = ("box", "keypoint", "landmark")
_OFTEN = 3
_UNKNOWN = "?"
Sample = list[tuple[str, Tensor]]

MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "flipped left to right": lambda x: x.flip(-1),
    "flipped upside down": lambda x: x.flip(-2),
    "turned by 180 degrees": lambda x: x.flip(-1, -2),
    "turned by 90 degrees": lambda x: x.rot90(1, (-2, -1)),
    "turned by 270 degrees": lambda x: x.rot90(3, (-2, -1)),
    "transposed": lambda x: x.transpose(-2, -1),
}


@dataclass(slots=True)
class Flips:
    """What became of the rest of a sample where, of two reads, the picture of one is that of the other moved.

    `alone` counts the pairs in which something stayed as it was that has to move, by its name; `still` does so for
    numbers of which nothing but the data tells whether they have to (by picture and move); `together` holds the
    names of what was seen to change. `moves` counts what became of the pictures themselves. `answers` counts what
    masks did when their picture moved, where that is clear: the move of the picture, the move of the mask, each
    empty for none.
    """

    alone: dict[str, int] = field(default_factory=dict)
    how: dict[str, tuple[str, str]] = field(default_factory=dict)
    together: set[str] = field(default_factory=set)
    still: dict[str, Counter[tuple[str, str]]] = field(default_factory=dict)
    answers: dict[tuple[str, str], Counter[tuple[str, str]]] = field(default_factory=dict)
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)

    def compare(self, first: Sample, second: Sample) -> None:
        """Take in two reads of one sample under different random numbers."""
        pairs = [(name, one, other) for (name, one), (_, other) in zip(first, second) if one.shape == other.shape]
        self.together |= {name for name, one, other in pairs if not torch.equal(one, other)}
        for picture, one, other in pairs:
            move = _move(one, other)
            if move is None:
                continue
            self.moves[picture, move] += 1
            for name, target, again in pairs:
                if name == picture:
                    continue
                if _is_mask_of(target, one):
                    self._answer(picture, name, move, _answers(target, again))
                if move and name not in self.together:
                    self._stayed(picture, name, move, target, one)

    def _stayed(self, picture: str, name: str, move: str, target: Tensor, image: Tensor) -> None:
        if _must_move(name, target, image, move):
            self.alone[name] = self.alone.get(name, 0) + 1
            self.how[name] = (picture, move)
        elif target.is_floating_point() and target.ndim <= 1:
            self.still.setdefault(name, Counter())[picture, move] += 1

    def _answer(self, picture: str, name: str, move: str, answers: set[str]) -> None:
        if len(answers) == 1 or move not in answers:
            self.answers.setdefault((picture, name), Counter())[move, min(answers, default=_UNKNOWN)] += 1

    def left_behind(self) -> Iterator[tuple[str, str, str, int]]:
        """What never moved although its picture did at least twice: its name, the picture's, how, how often."""
        for name, count in self.alone.items():
            if name not in self.together and count > 1:
                yield name, *self.how[name], count

    def led_astray(self) -> Iterator[tuple[str, str, str, str, int]]:
        """Masks that follow some moves of their picture and answer others wrongly, each always in the same way.

        Views that are moved on their own do not: theirs is another answer every time. Name, the picture's, how the
        picture is moved, how the mask is (empty: it stays), how often.
        """
        for (picture, name), answers in self.answers.items():
            followed = sum(count for (move, answer), count in answers.items() if move == answer != "")
            wrong = {key: count for key, count in answers.items() if key[0] != key[1]}
            is_rule = len({move for move, _ in answers}) == len(answers) and all(move for move, _ in wrong)
            if (
                is_rule
                and followed >= _OFTEN
                and sum(wrong.values()) >= _OFTEN
                and all(answer != _UNKNOWN for _, answer in wrong)
            ):
                (move, answer), count = min(wrong.items(), key=lambda item: (item[0][1] != "", -item[1]))
                yield name, picture, move, answer, count

    def moved_along(self) -> tuple[str, str, str, int] | None:
        """A picture and its mask that are moved alike, whenever they are: their names, how, how often."""
        for (picture, name), answers in self.answers.items():
            followed = {move: count for (move, answer), count in answers.items() if move == answer != ""}
            if sum(followed.values()) > 1 and all(move == answer for move, answer in answers):
                return picture, name, max(followed, key=lambda move: followed[move]), sum(followed.values())
        return None

    @property
    def is_unsure(self) -> bool:
        """Whether some mask answered wrongly, and more reads would tell whether it always does."""
        return any(move != answer for answers in self.answers.values() for move, answer in answers)


def _is_mask_of(target: Tensor, picture: Tensor) -> bool:
    mask, image = _channels_first(target), _channels_first(picture)
    return mask is not None and image is not None and mask.shape[-2:] == image.shape[-2:]


def _answers(first: Tensor, second: Tensor) -> set[str]:
    """The moves that turn the first mask into the second, bit by bit; the empty one if it stays."""
    one, other = _channels_first(first), _channels_first(second)
    if one is None or other is None:
        return set()
    found = {name for name, move in MOVES.items() if torch.equal(move(one), other)}
    return found | {""} if torch.equal(one, other) else found


def _move(first: Tensor, second: Tensor) -> str | None:
    """How the second picture comes from the first: empty where it stays, None where that does not show."""
    one, other = _channels_first(first), _channels_first(second)
    if one is None or other is None:
        return None
    if (as_it_was := _likeness(one, other)) > _OTHER:
        return "" if as_it_was > _ALIKE and not _is_symmetric(one) else None
    moves = ((name, move(one)) for name, move in MOVES.items())
    return next(
        (name for name, moved in moves if moved.shape == other.shape and _likeness(moved, other) > _ALIKE), None
    )


def _is_symmetric(picture: Tensor) -> bool:
    """Whether a flip hardly changes it, and so would not show."""
    return any(_likeness(picture, move(picture)) > _OTHER for name, move in MOVES.items() if "flipped" in name)


def _must_move(name: str, target: Tensor, picture: Tensor, move: str) -> bool:
    mask = _channels_first(target)
    if mask is not None and _is_mask_of(target, picture):
        moved = MOVES[move](mask)
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
