"""What every single column of the inputs holds: how often its commonest value, and how far its values reach."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch
from torch import Tensor

from mlcheck.probe.measure.data.passes import Pass
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import leaves

MOST_COLUMNS = 4096
MOST_ROWS = 20_000


@dataclass(frozen=True, slots=True)
class Columns:
    """One floating-point tensor of the batch, over a pass. `kind` is `column` (a table's), `channel`, `feature` (of a
    sequence, or its places, where they come last) or `number` (one a sample).

    `common` is each column's most frequent value, `share` how often it occurs. `reach` is the largest distance from
    the median, at `furthest`; `bulk` is the distance within which 99 % of the values lie. `repeated` is how often the
    furthest value occurs, `rest` the largest distance of all others.
    """

    name: str
    kind: str
    rows: int
    common: Tensor
    share: Tensor
    furthest: Tensor
    reach: Tensor
    bulk: Tensor
    repeated: Tensor
    rest: Tensor

    @property
    def place(self) -> str:
        """Where it stands in a batch, for a sentence."""
        return part_of("batch", self.name)


def columns_of(split: Pass, numbers: bool = False, signals: Collection[tuple[int, ...]] = ()) -> dict[str, Columns]:
    """Tables (samples, columns), the channels of pictures, and the features of sequences, from the kept batches.

    With `numbers` also what is one number a sample, as the target of a regression is. Sequences of a shape that is
    among `signals` have channels, which come first, as those of pictures do.
    """
    kept: dict[str, list[Tensor]] = {}
    for batch in split.kept:
        for name, tensor in leaves(batch):
            if tensor.is_floating_point() and tensor.layout is torch.strided and tensor.ndim and tensor.numel():
                kept.setdefault(name, []).append(tensor.detach().cpu())
    single = [name for name, tensors in kept.items() if all(tensor.numel() == len(tensor) for tensor in tensors)]
    if not numbers:
        kept = {name: tensors for name, tensors in kept.items() if name not in single}
    found = {name: _described(name, tensors, tuple(tensors[0].shape[1:]) in signals) for name, tensors in kept.items()}
    return {name: columns for name, columns in found.items() if columns is not None}


def _described(name: str, tensors: list[Tensor], channels: bool) -> Columns | None:
    channels = channels or tensors[0].ndim == 4
    rows = [_rows(tensor, channels) for tensor in tensors]
    single = rows[0].numel() == tensors[0].numel() == len(tensors[0])
    if len({row.shape[1] for row in rows}) != 1 or not (single or 1 < rows[0].shape[1] <= MOST_COLUMNS):
        return None
    table = torch.cat(rows).float().nan_to_num(0.0, 0.0, 0.0)
    if len(table) > MOST_ROWS:
        table = table[torch.randperm(len(table), generator=torch.Generator().manual_seed(0))[:MOST_ROWS]]
    middle = table.median(0).values
    common = table.mode(0).values
    distance = (table - middle).abs()
    far = distance.argmax(0, keepdim=True)
    same = table == table.gather(0, far)
    return Columns(
        name,
        "number" if single else "channel" if channels else "column" if tensors[0].ndim == 2 else "feature",
        len(table),
        common,
        (table == common).double().mean(0),
        table.gather(0, far)[0],
        distance.gather(0, far)[0],
        distance.kthvalue(max(1, int(0.99 * len(table))), dim=0).values,
        same.double().mean(0),
        distance.masked_fill(same, 0.0).max(0).values,
    )


def _rows(tensor: Tensor, channels: bool) -> Tensor:
    """(values, columns): pictures have their channels first, sequences their features last."""
    if tensor.ndim <= 2 or tensor.numel() == len(tensor):
        return tensor.reshape(len(tensor), -1)
    return (tensor.movedim(1, -1) if channels else tensor).flatten(0, -2)
