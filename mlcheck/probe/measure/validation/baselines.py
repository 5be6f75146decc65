"""What needs no training: the commonest answer, a linear model and the nearest neighbour, on the user's own splits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from mlcheck.probe.measure.data.examples import Examples

FEW = 60
MOST_ROWS = 1500
PERMUTATIONS = 500
RIDGE = 1e-2


@dataclass(frozen=True, slots=True)
class Baselines:
    """Accuracy (of classes) or R² (of numbers) on `asked` validation samples, learned from `known` training samples.

    `commonest` is the share of validation's own commonest class, which no guess without the inputs exceeds, `rarest`
    that of its rarest, below which none falls by more than chance.
    """

    measure: str
    constant: float
    linear: float
    neighbour: float
    known: int
    asked: int
    commonest: float = 0.0
    rarest: float = 0.0

    @property
    def best(self) -> tuple[str, float]:
        named = {"a linear model": self.linear, "the nearest neighbour": self.neighbour}
        return max(named.items(), key=lambda pair: pair[1])


def baselines(training: Examples, validation: Examples) -> Baselines | None:
    """None where the splits differ in their columns, or samples are too few."""
    if training.x.shape[1] != validation.x.shape[1] or training.classes != validation.classes:
        return None
    known, y = distinct(training)
    asked, wanted = validation.x[:MOST_ROWS], validation.y[:MOST_ROWS]
    if min(len(known), len(asked)) < FEW:
        return None
    known, y = known[:MOST_ROWS], y[:MOST_ROWS]
    known, asked = scaled(known, known), scaled(asked, known)
    constant = y.mode().values if training.classes else y.mean()
    return Baselines(
        "accuracy" if training.classes else "R²",
        _score(constant.expand(len(wanted)), wanted, training.classes),
        _score(_linear(known, y, asked, training.classes), wanted, training.classes),
        _score(y[_nearest(asked, known)], wanted, training.classes),
        len(known),
        len(asked),
        float((wanted == wanted.mode().values).double().mean()) if training.classes else 0.0,
        min(float((wanted == one).double().mean()) for one in torch.unique(y)) if training.classes else 0.0,
    )


def distinct(table: Examples) -> tuple[Tensor, Tensor]:
    """Every sample once, in a fixed random order: a sampler may draw one many times."""
    first = list({row.tobytes(): place for place, row in enumerate(table.x.numpy())}.values())
    order = torch.randperm(len(first), generator=torch.Generator().manual_seed(0))
    places = torch.tensor(first)[order]
    return table.x[places], table.y[places]


def scaled(x: Tensor, by: Tensor) -> Tensor:
    return (x - by.mean(0)) / by.std(0, correction=0).clamp_min(1e-6 * float(by.abs().max()) + 1e-12)


def _nearest(asked: Tensor, known: Tensor) -> Tensor:
    return torch.cdist(asked, known).argmin(1)


def _linear(known: Tensor, y: Tensor, asked: Tensor, classes: bool) -> Tensor:
    """Ridge regression, of one-hot classes where there are some, by the smaller of the two normal equations."""
    target = F.one_hot(y).double() if classes else y.double()[:, None]
    middle = target.mean(0)
    x = known.double()
    gram = x @ x.T
    gram += RIDGE * x.shape[1] * torch.eye(len(x), dtype=torch.float64)
    weights = x.T @ torch.linalg.solve(gram, target - middle)
    predicted = asked.double() @ weights + middle
    answer: Tensor = predicted.argmax(1) if classes else predicted[:, 0]
    return answer


def _score(predicted: Tensor, y: Tensor, classes: bool) -> float:
    if classes:
        return float((predicted == y).double().mean())
    return 1 - float((predicted - y).double().pow(2).mean() / y.double().var(correction=0).clamp_min(1e-30))


@dataclass(frozen=True, slots=True)
class Signal:
    """Whether the nearest sample tells the label: the score, what permuted labels give at the median, and p.

    `apart` is how many times as far the nearest one is that is asked as the nearest of those that ask.
    """

    score: float
    permuted: float
    p: float
    samples: int
    apart: float = 1.0


def signal_within(table: Examples) -> Signal | None:
    """One half of the samples asked about the other."""
    x, y = distinct(table)
    half = min(len(x) // 2, MOST_ROWS)
    if half < FEW // 2:
        return None
    x = scaled(x, x)
    return _signal(x[half : 2 * half], y[half : 2 * half], x[:half], y[:half], table.classes)


def signal_across(training: Examples, validation: Examples) -> Signal | None:
    """Validation samples asked about the training samples."""
    if training.x.shape[1] != validation.x.shape[1]:
        return None
    (x, y), (asked, wanted) = distinct(training), distinct(validation)
    if min(len(x), len(asked)) < FEW // 2:
        return None
    by = x
    x, asked = scaled(x, by)[:MOST_ROWS], scaled(asked, by)[:MOST_ROWS]
    found = _signal(asked, wanted[:MOST_ROWS], x, y[:MOST_ROWS], training.classes)
    among = torch.cdist(asked, asked).fill_diagonal_(math.inf).amin(1).median()
    return replace(found, apart=float(torch.cdist(asked, x).amin(1).median() / among) if among > 0 else math.inf)


def _signal(asked: Tensor, wanted: Tensor, known: Tensor, y: Tensor, classes: bool) -> Signal:
    near = torch.cdist(asked, known).topk(min(3, len(known)), largest=False).indices
    told = y[near] if classes else y[near].double().mean(1)
    truth = _agreement(told, wanted, classes)
    generator = torch.Generator().manual_seed(0)
    null = torch.tensor(
        [
            _agreement(told, wanted[torch.randperm(len(wanted), generator=generator)], classes)
            for _ in range(PERMUTATIONS)
        ]
    )
    p = (1 + int((null >= truth).sum())) / (1 + PERMUTATIONS)
    return Signal(truth, float(null.median()), p, len(asked))


def _agreement(told: Tensor, wanted: Tensor, classes: bool) -> float:
    """How often neighbours have the same label; of their mean numbers, minus the mean squared difference."""
    if classes:
        return float((told == wanted[:, None]).double().mean())
    return -float((told - wanted.double()).pow(2).mean())
