"""A pass over a split as a table: one row of inputs and one target a sample, whatever the batches look like."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mlcheck.probe.measure.data.passes import Field, Pass
from mlcheck.probe.measure.data.summarised import MOST_IDS, summary
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import leaves

MOST = 4000
MOST_COLUMNS = 8192
MOST_CLASSES = 1000
FEW_ALIKE = 4
LONG, CHANNELS = 16, 3
_ROUNDING = 1e-6
CLASS_LOSSES = {"cross_entropy", "nll_loss"}
BINARY_LOSSES = {"binary_cross_entropy", "binary_cross_entropy_with_logits"}


@dataclass(frozen=True, slots=True)
class Input:
    """One tensor of the batch: its samples as rows, with its columns' place in the table of all inputs.

    Where samples have no common size, the columns are a summary of each: the first `means` of them are means, those
    behind spreads; or ids are `counted`.
    """

    name: str
    shape: tuple[int, ...]
    start: int
    stop: int
    means: int = 0
    counted: bool = False

    @property
    def is_signal(self) -> bool:
        """Whether its places are those of a recording or a picture: one long side, and no more than three channels."""
        return len(self.shape) > 1 and max(self.shape) >= LONG and min(self.shape) <= CHANNELS

    def column(self, index: int) -> str:
        """What a column of the table is called: `0[:, 3]`, as it is written for a batch."""
        if self.means or self.counted:
            return self._summary(index - self.start)
        place, rest = [], index - self.start
        for length in reversed(self.shape):
            place.append(rest % length)
            rest //= length
        return f"{part_of('batch', self.name)}[:, {', '.join(map(str, reversed(place)))}]"

    def _summary(self, index: int) -> str:
        name = part_of("batch", self.name)
        if self.counted:
            return f"{name} == {index}"
        return f"{'' if index < self.means else 'spread of '}{name}[:, {index % self.means}]"


@dataclass(frozen=True, slots=True)
class Examples:
    """`x` (samples, columns) as float32, `y` (samples,): class indices where `classes`, else float64 targets.

    `summarised` says that the columns are not what a sample holds, but a summary of it.
    """

    x: Tensor
    y: Tensor
    classes: bool
    target: str
    inputs: tuple[Input, ...]
    summarised: bool = False

    def column(self, index: int) -> str:
        return self.part(index).column(index)

    def is_one_a_sample(self, index: int) -> bool:
        """Whether the samples hold one value in this column, all over."""
        part = self.part(index)
        if not self.summarised or index >= part.start + part.means:
            return not self.summarised
        spread = self.x[:, index + part.means].abs()
        return bool((spread <= _ROUNDING * self.x[:, index].abs().max()).all())

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
    """The kept batches as a table of at most 4,000 rows; None where there is no one target.

    The target is `of`, or the only one. Samples of no common size are summarised.
    """
    target = of or target_field(split, first)
    if target is None:
        return None
    table = _table(split, first, target)
    if table is None or table.y.shape[1] != 1:
        return None
    x, y, classes = table.x, table.y.flatten(), has_classes(target, first)
    if classes:
        x, y = x[y >= 0], y[y >= 0].long()  # a label below 0 stands for none
    return replace(table, x=x, y=y, classes=classes) if len(y) else None


def tagged_examples(split: Pass, first: FirstLoss) -> Examples | None:
    """The same of the only target where that is a yes or no for each of several tags: `y` is (samples, tags)."""
    if not {loss.kind for loss in first.losses} <= BINARY_LOSSES:
        return None
    fields = [split.fields[name] for name in first.targets if name in split.fields]
    return _table(split, first, fields[0]) if len(fields) == 1 and _holds_tags(fields[0]) else None


def _holds_tags(field: Field) -> bool:
    several = len(field.shape) == 2 and field.shape[1] > 1
    return several and field.integral and (field.low, field.high) == (0.0, 1.0)


def _table(split: Pass, first: FirstLoss, target: Field) -> Examples | None:
    """With the target's numbers as rows."""
    pairs: list[tuple[dict[str, Tensor], Tensor]] = []
    for batch in split.kept:
        tensors = dict(leaves(batch))
        labels = tensors.pop(target.name, None)
        if labels is None or not labels.ndim or (pairs and labels[:1].numel() != pairs[0][1][:1].numel()):
            return None
        pairs.append((tensors, labels))
        if sum(len(labels) for _, labels in pairs) >= MOST:
            break
    plain = _as_they_are(pairs, first)
    found = plain or _summarised(pairs, first)
    if found is None or found[1][-1].stop > MOST_COLUMNS:
        return None
    rows, inputs = found
    y = torch.cat([labels.detach().cpu().double().unsqueeze(-1).flatten(1) for _, labels in pairs])[:MOST]
    x = rows[:MOST].nan_to_num(0.0, 0.0, 0.0)
    return Examples(x, y, False, target.place, inputs, plain is None) if len(y) else None


def _as_they_are(
    pairs: list[tuple[dict[str, Tensor], Tensor]], first: FirstLoss
) -> tuple[Tensor, tuple[Input, ...]] | None:
    """None where the samples have no common size."""
    rows: list[Tensor] = []
    inputs: tuple[Input, ...] = ()
    for tensors, labels in pairs:
        names = _input_names(tensors, len(labels), first)
        if not names:
            return None
        if inputs and [(part.name, part.shape) for part in inputs] != [(n, tuple(tensors[n].shape[1:])) for n in names]:
            return None
        inputs = inputs or _layout(names, tensors)
        rows.append(torch.cat([tensors[name].detach().cpu().float().flatten(1) for name in names], dim=1))
    return (torch.cat(rows), inputs) if rows else None


def _summarised(
    pairs: list[tuple[dict[str, Tensor], Tensor]], first: FirstLoss
) -> tuple[Tensor, tuple[Input, ...]] | None:
    """Of every input of the model that can be, a summary of each sample."""
    rows: list[Tensor] = []
    inputs: list[Input] = []
    for name in first.inputs:
        given = [tensors.get(name) for tensors, _ in pairs]
        whole = [one for one in given if one is not None and one.numel()]
        if len(whole) < len(pairs) or not pairs:
            continue
        ids = max(int(one.max()) for one in whole) + 1 if not whole[0].is_floating_point() else 0
        if ids > MOST_IDS or (ids and min(int(one.min()) for one in whole) < 0):
            continue
        told = [
            summary(one, [t for other, t in tensors.items() if other != name], len(labels), ids)
            for one, (tensors, labels) in zip(whole, pairs)
        ]
        parts = [one for one in told if one is not None]
        if len(parts) < len(pairs) or len({one.rows.shape[1] for one in parts}) > 1:
            continue
        start, width = inputs[-1].stop if inputs else 0, parts[0].rows.shape[1]
        inputs.append(Input(name, (width,), start, start + width, parts[0].means, bool(ids)))
        rows.append(torch.cat([one.rows for one in parts]))
    return (torch.cat(rows, dim=1), tuple(inputs)) if rows else None


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
