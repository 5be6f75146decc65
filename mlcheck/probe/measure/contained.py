"""Targets of several numbers that stand in the input, number for number."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mlcheck.probe.measure.first_loss import FirstLoss
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.passes import Pass
from mlcheck.probe.measure.tree import leaves

_FEW = 80
_MOST = 2000
_MOST_TARGETS = 256


@dataclass(frozen=True, slots=True)
class Contained:
    """`columns` of the flattened input `source` are the numbers of `target`, in all of `samples`."""

    target: str
    source: str
    columns: tuple[int, ...]
    samples: int


def contained_target(split: Pass, first: FirstLoss) -> Contained | None:
    """A target of which every number is in the input beside others; an input that is its own target is none."""
    for target in first.targets or first.compared:
        for source in [name for name in first.inputs if name not in first.targets]:
            wanted, given = _rows(split, target), _rows(split, source)
            if wanted is None or given is None or len(wanted) != len(given) or len(wanted) < _FEW:
                continue
            if target in first.compared and len(set(wanted.flatten().tolist())) < _FEW:
                continue  # a mask that stands in the input on purpose
            columns = _columns(wanted, given)
            if columns:
                return Contained(part_of("batch", target), part_of("batch", source), columns, len(wanted))
    return None


def _rows(split: Pass, name: str) -> Tensor | None:
    found: list[Tensor] = []
    for batch in split.kept:
        tensor = dict(leaves(batch)).get(name)
        if tensor is None or tensor.ndim < 2 or not tensor.is_floating_point():
            return None
        flat = tensor.detach().cpu().flatten(1)
        if found and flat.shape[1:] != found[0].shape[1:]:
            return None
        found.append(flat)
        if sum(map(len, found)) >= _MOST:
            break
    return torch.cat(found)[:_MOST] if found else None


def _columns(wanted: Tensor, given: Tensor) -> tuple[int, ...]:
    """The input's column for each of the target's, empty unless all are there; constant ones tell nothing."""
    count = wanted.shape[1]
    if not 1 < count <= _MOST_TARGETS or given.shape[1] <= count or wanted.dtype != given.dtype:
        return ()
    places: list[int] = []
    for column in wanted.T:
        if bool((column == column[0]).all()):
            return ()
        candidates = (given[0] == column[0]).nonzero()[:, 0].tolist()
        place = next((one for one in candidates if torch.equal(given[:, one], column)), None)
        if place is None:
            return ()
        places.append(place)
    return tuple(places)
