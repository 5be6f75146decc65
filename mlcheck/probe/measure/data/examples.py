"""A pass over a split as a table: one row of inputs and one target a sample, whatever the batches look like."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from mlcheck.probe.measure.data.passes import Field, Pass
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import leaves

MOST = 4000
MOST_COLUMNS = 8192
MOST_CLASSES = 1000
FEW_ALIKE = 4
LONG, CHANNELS = 16, 3
CLASS_LOSSES = {"cross_entropy", "nll_loss"}
BINARY_LOSSES = {"binary_cross_entropy", "binary_cross_entropy_with_logits"}


@dataclass(frozen=True, slots=True)
class Input:
    """One tensor of the batch: its samples as rows, with its columns' place in the table of all inputs."""

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int

    @property
    def is_signal(self) -> bool:
        """Whether its places are those of a recording or a picture: one long side, and no more than three channels."""
        return len(self.shape) > 1 and max(self.shape) >= LONG and min(self.shape) <= CHANNELS

    def column(self, index: int) -> str:
        """What a column of the table is called: `0[:, 3]`, as it is written for a batch."""
        place, rest = [], index - self.start
        for length in reversed(self.shape):
            place.append(rest % length)
            rest //= length
        return f"{part_of('batch', self.name)}[:, {', '.join(map(str, reversed(place)))}]"


@dataclass(frozen=True, slots=True)
class Examples:
    """`x` (samples, columns) as float32, `y` (samples,): class indices where `classes`, else float64 targets."""

    x: Tensor
    y: Tensor
    classes: bool
    target: str
    inputs: tuple[Input, ...]

    def column(self, index: int) -> str:
        return self.part(index).column(index)

    def part(self, index: int) -> Input:
        """The input that a column is of."""
        return next(part for part in self.inputs if part.start <= index < part.stop)


def target_field(split: Pass, first: FirstLoss) -> Field | None:
    """The field of the batch that is a loss's target, one number a sample; None where there is none, or several."""
    found = target_fields(split, first)
    return found[0] if len(found) == 1 else None


def target_fields(split: Pass, first: FirstLoss, picked: tuple[str, ...] = ()) -> list[Field]:
    """All of them: a loss of survival compares with a time and with whether it was the end."""
    wanted = first.targets or first.written or picked
    return [split.fields[name] for name in wanted if name in split.fields and split.fields[name].labels]


def has_classes(field: Field, first: FirstLoss) -> bool:
    """Whether the field's numbers are class labels: by the losses, and by the numbers themselves."""
    kinds = {loss.kind for loss in first.losses}
    if field.name in first.written:
        return _look_like_classes(field)
    if kinds & CLASS_LOSSES:
        return field.integral
    return bool(kinds & BINARY_LOSSES) and set(field.labels) <= {0.0, 1.0}


def _look_like_classes(field: Field) -> bool:
    """Whole numbers from 0, each of several samples; in floating point only those of a yes or no."""
    different = set(field.labels)
    counted = "int" in field.dtype and field.low >= 0 and field.high < MOST_CLASSES
    return different <= {0.0, 1.0} or (counted and len(different) * FEW_ALIKE <= len(field.labels))


def examples(split: Pass, first: FirstLoss, of: Field | None = None) -> Examples | None:
    """The kept batches as a table of at most 4,000 rows; None where samples have no common size or no one target.

    The target is `of`, or the only one.
    """
    target = of or target_field(split, first)
    if target is None:
        return None
    rows, targets = [], []
    inputs: tuple[Input, ...] = ()
    for batch in split.kept:
        tensors = dict(leaves(batch))
        labels = tensors.pop(target.name, None)
        if labels is None or not labels.ndim or labels.numel() != len(labels):
            return None
        names = _input_names(tensors, len(labels), first)
        if not names:
            return None
        if inputs and [(part.name, part.shape) for part in inputs] != [(n, tuple(tensors[n].shape[1:])) for n in names]:
            return None
        inputs = inputs or _layout(names, tensors)
        rows.append(torch.cat([tensors[name].detach().cpu().float().flatten(1) for name in names], dim=1))
        targets.append(labels.detach().cpu().double().flatten())
        if sum(map(len, targets)) >= MOST:
            break
    if not rows or inputs[-1].stop > MOST_COLUMNS:
        return None
    y, classes = torch.cat(targets)[:MOST], has_classes(target, first)
    x = torch.cat(rows)[:MOST].nan_to_num(0.0, 0.0, 0.0)
    if classes:
        x, y = x[y >= 0], y[y >= 0].long()  # a label below 0 stands for none
    return Examples(x, y, classes, target.place, inputs) if len(y) else None


def _input_names(tensors: dict[str, Tensor], samples: int, first: FirstLoss) -> list[str]:
    """What the model was seen to get; where it gets what is made on the way, all but the targets."""
    rows = [
        name
        for name, tensor in tensors.items()
        if tensor.ndim > 1
        and len(tensor) == samples
        and name not in (*first.targets, *first.written, *first.picked)
        and not tensor.is_complex()
    ]
    seen = [name for name in rows if name in first.inputs]
    return seen or rows


def _layout(names: list[str], tensors: dict[str, Tensor]) -> tuple[Input, ...]:
    parts, start = [], 0
    for name in names:
        shape = tuple(tensors[name].shape[1:])
        stop = start + math.prod(shape)
        parts.append(Input(name, shape, start, stop))
        start = stop
    return tuple(parts)
