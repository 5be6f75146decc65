"""Single input columns that give the target away: how well each of them alone predicts it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mlcheck.probe.measure.data.examples import Examples

FEW = 80
FEW_A_CLASS = 5
FEW_CLASSES = 3
FEW_OF_THE_RAREST = 15
_CHUNK = 256


@dataclass(frozen=True, slots=True)
class Giveaway:
    """A column and what it gives: `copied` is the target itself up to scale, `coded` has one value for each class.

    `one_hot` are columns of which each stands for one class: it has one value in that class and another in all others.
    `ordered` is one that rises or falls with the target, whichever two samples are compared: its logarithm, say.
    `alone` is the accuracy (of classes) or R² (of numbers) of the column by itself, `without` that of the nearest
    neighbours in all other columns; both on samples that were held back. Samples that are drawn twice count once.
    `by_class` are the same two as means over the classes; none where a class has few samples.
    """

    column: int
    copied: bool
    coded: bool
    alone: float
    without: float
    by_class: tuple[float, float] | None = None
    one_hot: tuple[int, ...] = ()
    ordered: bool = False


def best_column(table: Examples) -> Giveaway | None:
    """The column that tells most about the target by itself; None where there are too few samples or columns."""
    first = list({row.tobytes(): place for place, row in enumerate(table.x.numpy())}.values())
    x, y = table.x[first], table.y[first]
    varies = (x.std(0, correction=0) > 0).nonzero()[:, 0]
    if len(y) < FEW or len(varies) < 2 or bool((y == y[0]).all()):
        return None
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    half = len(y) // 2
    scores = _alone(x[order][:, varies], y[order], half, table.classes)
    best = int(scores.argmax())
    column = int(varies[best])
    values = _values_of_classes(x[:, varies], y) if table.classes else torch.zeros(0, 0)
    coded, one_hot = _coded(values), tuple(varies[_one_hot(values)].tolist())
    if bool(coded.any()):
        best = int(coded.nonzero()[0, 0])
        column = int(varies[best])
    nearest = _nearest(x[order][:, varies[varies != column]], y[order], half)
    without = float(_scores(nearest, y[order][half:], table.classes))
    copied = not table.classes and _is_copy(x[:, column].double(), y.double())
    ordered = not table.classes and _is_ordered(x[:, column].double(), y.double())
    by_class = None
    if table.classes and int(torch.unique(y[order][half:], return_counts=True)[1].min()) >= FEW_OF_THE_RAREST:
        own = torch.cat(list(_predicted(x[order][:, [column]], y[order], half)))[0]
        by_class = _mean_over_classes(own, y[order][half:]), _mean_over_classes(nearest, y[order][half:])
    return Giveaway(column, copied, bool(coded.any()), float(scores[best]), without, by_class, one_hot, ordered)


def _mean_over_classes(predicted: Tensor, y: Tensor) -> float:
    right = (predicted == y).double()
    return float(torch.stack([right[y == one].mean() for one in torch.unique(y)]).mean())


def _alone(x: Tensor, y: Tensor, half: int, classes: bool) -> Tensor:
    return torch.cat([_scores(predicted, y[half:], classes) for predicted in _predicted(x, y, half)])


def _predicted(x: Tensor, y: Tensor, half: int) -> Iterator[Tensor]:
    """What each column's own nearest neighbour in the first half says of the samples of the second."""
    for start in range(0, x.shape[1], _CHUNK):
        known, asked = x[:half, start : start + _CHUNK].T.contiguous(), x[half:, start : start + _CHUNK].T.contiguous()
        ordered, places = known.sort(dim=1)
        right = torch.searchsorted(ordered, asked).clamp(1, half - 1)
        nearer = (asked - ordered.gather(1, right - 1)).abs() <= (ordered.gather(1, right) - asked).abs()
        yield y[places.gather(1, right - nearer.long())]


def _nearest(x: Tensor, y: Tensor, half: int) -> Tensor:
    x = (x - x.mean(0)) / x.std(0, correction=0)
    return y[torch.cdist(x[half:], x[:half]).argmin(1)]


def _scores(predicted: Tensor, y: Tensor, classes: bool) -> Tensor:
    """Accuracy of classes, R² of numbers, along the last dimension."""
    if classes:
        return (predicted == y).double().mean(-1)
    return 1 - (predicted - y).double().pow(2).mean(-1) / y.double().var(correction=0)


def _values_of_classes(x: Tensor, y: Tensor) -> Tensor:
    """(classes, columns): the one value that a column has in all samples of a class, NaN where there are several."""
    classes, counts = torch.unique(y, return_counts=True)
    if int(counts.min()) < FEW_A_CLASS:
        return torch.full((len(classes), x.shape[1]), torch.nan)
    of_classes = [x[y == one] for one in classes]
    return torch.stack([torch.where((rows == rows[0]).all(0), rows[0], torch.nan) for rows in of_classes])


def _coded(values: Tensor) -> Tensor:
    """Columns with another value for each class."""
    return (values.sort(dim=0).values.diff(dim=0) > 0).all(0) if len(values) else torch.zeros(0, dtype=torch.bool)


def _one_hot(values: Tensor) -> list[int]:
    """A column for every class but one at most, of three or more; none otherwise."""
    if len(values) < FEW_CLASSES:
        return []
    found: dict[int, int] = {}
    for column, of_class in enumerate(values.T):
        different, where, counts = torch.unique(of_class, return_inverse=True, return_counts=True)
        if not bool(of_class.isnan().any()) and len(different) == 2 and int(counts.min()) == 1:
            found.setdefault(int((where == int(counts.argmin())).nonzero()[0, 0]), column)
    return sorted(found.values()) if len(found) >= len(values) - 1 else []


def _is_copy(column: Tensor, y: Tensor) -> bool:
    """Whether the target is the column up to scale and offset, within float32's rounding."""
    one, other = column - column.mean(), y - y.mean()
    slope = float((one * other).sum() / one.pow(2).sum())
    return float((other - slope * one).abs().max()) < 1e-5 * float(other.abs().max())


def _is_ordered(column: Tensor, y: Tensor) -> bool:
    """Whether the two go up and down together, or one down where the other goes up, without an exception."""
    steps = y[column.argsort()].diff()
    distinct = len(torch.unique(column)) == len(column)
    return distinct and (bool((steps > 0).all()) or bool((steps < 0).all()))
