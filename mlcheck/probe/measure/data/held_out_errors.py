"""How often two simple models are wrong on training samples that they did not see, and on validation samples.

Both are asked with the same knowledge: one half of the training samples answers the other half and the validation
split. Where the classes are as hard in both, both errors are alike; wrong labels of training alone show in one. Where
most labels of a class are wrong, only what was learnt from validation tells: of single classes it is asked instead.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

FEW = 60
MOST = 2000
NEIGHBOURS = 5
_RIDGE = 0.1
_APART = 0.1


@dataclass(frozen=True, slots=True)
class Errors:
    """Of the samples that have the label `part` (None for all of them), or of one tag of several."""

    part: int | None
    wrong: int
    asked: int
    wrong_held_out: int
    asked_held_out: int
    taken_for: int | None = None


def held_out_errors(
    training: tuple[Tensor, Tensor], validation: tuple[Tensor, Tensor], ignored: int = -1
) -> list[Errors]:
    """All samples first, then each label or tag; rows of features, and one label a sample or 0 and 1 for each tag."""
    (x, y), (asked, wanted) = _some(training, ignored), _some(validation, ignored)
    if min(len(x) // 2, len(asked)) < FEW or x.shape[1:] != asked.shape[1:] or y.shape[1:] != wanted.shape[1:]:
        return []
    spread = x.std(0, correction=0)
    x, asked = x[:, spread > 0] / spread[spread > 0], asked[:, spread > 0] / spread[spread > 0]
    own, others = _better(_answers(x, y, asked, wanted))
    whole, *parts = _by_part(own, y, others, wanted)
    if y.ndim == 1:
        others, own = _better(_answers(asked, wanted, x, y))
        _, *parts = _by_part(own, y, others, wanted)
    return [whole, *parts] if as_often(y, wanted) else [Errors(None, 0, 0, 0, 0), *parts]


def as_often(y: Tensor, wanted: Tensor) -> bool:
    """Whether labels are as frequent in both: a class that is hard counts for more where a sampler draws more of it.

    Beyond what two draws of that many samples differ by.
    """
    if y.ndim == 2:
        return bool(((y.double().mean(0) - wanted.double().mean(0)).abs() < _APART).all())
    classes = int(max(y.max(), wanted.max())) + 1
    one, other = (torch.bincount(labels, minlength=classes).double() / len(labels) for labels in (y, wanted))
    both = (one + other) / 2
    by_chance = (2 / math.pi * both * (1 - both) * (1 / len(y) + 1 / len(wanted))).sqrt().sum() / 2
    return float((one - other).abs().sum() / 2 - by_chance) < _APART


def _some(split: tuple[Tensor, Tensor], ignored: int) -> tuple[Tensor, Tensor]:
    """At most 2,000 in random order, each sample once, those without a label left out."""
    first = list({row.tobytes(): place for place, row in enumerate(split[0].numpy())}.values())
    order = torch.tensor(first)[torch.randperm(len(first), generator=torch.Generator().manual_seed(0))]
    x, y = split[0][order].double(), split[1][order]
    known = (y >= 0) & (y != ignored) if y.ndim == 1 else (y >= 0).all(1)
    return x[known][:MOST], y[known][:MOST].long()


Pair = tuple[Tensor, Tensor]


def _answers(x: Tensor, y: Tensor, asked: Tensor, wanted: Tensor) -> list[tuple[float, Pair]]:
    """By each of the models: its errors among `asked`, what each half of `x` says of the other, and one of `asked`."""
    half, found = len(x) // 2, []
    first, second = (x[:half], y[:half]), (x[half:], y[half:])
    for answer in (_linear, _nearest):
        own, others = torch.cat([answer(*second, x[:half]), answer(*first, x[half:])]), answer(*first, asked)
        found.append((float((others != wanted).double().mean() + (own != y).double().mean()), (own, others)))
    return found


def _better(answers: list[tuple[float, Pair]]) -> Pair:
    return min(answers, key=lambda each: each[0])[1]


def _linear(known: Tensor, y: Tensor, asked: Tensor) -> Tensor:
    target = F.one_hot(y).double() if y.ndim == 1 else y.double()
    middle, mean = known.mean(0), target.mean(0)
    centred = known - middle
    gram = centred.T @ centred + _RIDGE * len(known) * torch.eye(known.shape[1], dtype=torch.float64)
    said: Tensor = (asked - middle) @ torch.linalg.solve(gram, centred.T @ (target - mean)) + mean
    return said.argmax(1) if y.ndim == 1 else (said > 0.5).long()


def _nearest(known: Tensor, y: Tensor, asked: Tensor) -> Tensor:
    near = y[torch.cdist(asked, known).topk(NEIGHBOURS, largest=False).indices]
    return near.mode(1).values


def _by_part(own: Tensor, y: Tensor, others: Tensor, wanted: Tensor) -> Iterator[Errors]:
    wrong, wrong_held_out = own != y, others != wanted
    yield Errors(None, int(wrong.sum()), wrong.numel(), int(wrong_held_out.sum()), wrong_held_out.numel())
    for part in range(y.shape[1]) if y.ndim == 2 else torch.unique(y).tolist():
        mine, theirs = (labels[:, part] >= 0 if y.ndim == 2 else labels == part for labels in (y, wanted))
        seen, seen_held_out = (wrong[:, part], wrong_held_out[:, part]) if y.ndim == 2 else (wrong, wrong_held_out)
        taken = own[mine & wrong] if y.ndim == 1 else torch.empty(0)
        yield Errors(
            part,
            int(seen[mine].sum()),
            int(mine.sum()),
            int(seen_held_out[theirs].sum()),
            int(theirs.sum()),
            int(taken.mode().values) if len(taken) else None,
        )
