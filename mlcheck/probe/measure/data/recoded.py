"""Categories whose numbers mean other things in validation: each split was encoded by itself.

What a code says about the target is learnt on training data. Where validation codes say nothing as they are, and say
much when they are exchanged for others, one for one, they mean something else there. Which are exchanged is found on
one half of the validation samples and judged on the other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from mlcheck.probe.measure.data.passes import Pass
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import leaves

_FEW = 60
_MOST_COLUMNS = 64
_MOST_CODES = 200
_MOST_CLASSES = 20
_BINS = 5
_TELLS = 0.02  # nats a sample
_KEPT = 0.5
_SURE = 5.0


@dataclass(frozen=True, slots=True)
class Recoded:
    """`exchanged` maps codes of validation to those that mean the same in training, in the column `place`.

    `told` is how many nats a training sample's code tells about its target, `as_given` those of validation with its
    codes as they are, and `as_exchanged` with the others.
    """

    place: str
    exchanged: dict[int, int]
    told: float
    as_given: float
    as_exchanged: float


def recoded(training: Pass, validation: Pass, inputs: Collection[str], target: str) -> Recoded | None:
    """The column of which this is clearest; None where it is so of none."""
    found = []
    for name in inputs:
        here, there = (list(_columns(split, name, target)) for split in (training, validation))
        for place, (known, asked) in enumerate(zip(here, there)):
            column = part_of("batch", name) + (f"[:, {place}]" if len(here) > 1 else "")
            if len(here) == len(there) and (one := _judged(column, known, asked)):
                found.append(one)
    return max(found, key=lambda one: one.as_exchanged, default=None)


def _columns(split: Pass, name: str, target: str) -> Iterator[tuple[Tensor, Tensor]]:
    """The codes of each column that holds few whole numbers, and the targets."""
    batches = [dict(leaves(batch)) for batch in split.kept]
    pairs = [(batch[name], batch[target]) for batch in batches if name in batch and target in batch]
    if not pairs or any(y.numel() != len(y) or len(x) != len(y) or x.ndim > 2 for x, y in pairs):
        return
    if len({x.shape[1:] for x, _ in pairs}) > 1:
        return
    table = torch.cat([x.detach().double().reshape(len(x), -1) for x, _ in pairs])
    wanted = torch.cat([y.detach().double().flatten() for _, y in pairs])
    if bool(table.isfinite().all() and wanted.isfinite().all()):
        for column in table.T[:_MOST_COLUMNS]:
            yield column, wanted


def _judged(place: str, known: tuple[Tensor, Tensor], asked: tuple[Tensor, Tensor]) -> Recoded | None:
    codes, classes = torch.unique(known[0]), _classes(known[1])
    whole = all(bool((column == column.round()).all()) for column, _ in (known, asked))
    if not whole or not 2 <= len(codes) <= _MOST_CODES or min(len(known[1]), len(asked[1])) < _FEW:
        return None
    seen = torch.isin(asked[0], codes)
    if not bool(seen.all()):
        return None  # other categories altogether
    x, y = torch.searchsorted(codes, known[0].contiguous()), torch.bucketize(known[1], classes)
    u, v = torch.searchsorted(codes, asked[0].contiguous()), torch.bucketize(asked[1], classes)
    width = int(max(y.max(), v.max())) + 1
    tells = _tells(x, y, len(codes), width)
    told = float(tells[x, y].mean())
    half = torch.randperm(len(u), generator=torch.Generator().manual_seed(0)) % 2 == 0
    exchange = _exchange(tells, u[half], v[half])
    mine, theirs = tells[u[~half], v[~half]], tells[exchange[u[~half]], v[~half]]
    gain = theirs - mine
    sure = float(gain.mean()) > _SURE * float(gain.std()) / len(gain) ** 0.5
    as_given, as_exchanged = float(mine.mean()), float(theirs.mean())
    if told < _TELLS or not sure or as_given > 0 or as_exchanged < _KEPT * told:
        return None
    moved = {int(codes[k]): int(codes[j]) for k, j in enumerate(exchange.tolist()) if k != j}
    return Recoded(place, moved, told, as_given, as_exchanged)


def _classes(target: Tensor) -> Tensor:
    """The bounds between classes, or between fifths of what has more values."""
    values = torch.unique(target)
    middles: Tensor = (values[1:] + values[:-1]) / 2
    return (
        middles
        if len(values) <= _MOST_CLASSES
        else torch.quantile(target[:10_000], torch.linspace(0, 1, _BINS + 1, dtype=target.dtype)[1:-1])
    )


def _tells(codes: Tensor, classes: Tensor, count: int, width: int) -> Tensor:
    """How many nats each code says for each class, or against it; a code that is rare says little."""
    share = (classes.bincount(minlength=width) + 0.5) / (len(classes) + 0.5 * width)
    table = torch.zeros(count, width, dtype=torch.float64)
    table.index_put_((codes, classes), torch.ones(len(codes), dtype=torch.float64), accumulate=True)
    smoothed = (table + width * share) / (table.sum(1, keepdim=True) + width)
    return smoothed.log() - share.log()


def _exchange(tells: Tensor, codes: Tensor, classes: Tensor) -> Tensor:
    """For each code another one, each taken once, that says most about these samples; those that are clearest first."""
    table = torch.zeros_like(tells)
    table.index_put_((codes, classes), torch.ones(len(codes), dtype=tells.dtype), accumulate=True)
    scores = table @ tells.T
    exchange = torch.arange(len(tells))
    taken = torch.zeros(len(tells), dtype=torch.bool)
    for code in table.sum(1).argsort(descending=True).tolist():
        best = int(scores[code].masked_fill(taken, -float("inf")).argmax())
        exchange[code] = best
        taken[best] = True
    return exchange
