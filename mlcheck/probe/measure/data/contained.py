"""Targets of several numbers that stand in the input, number for number, or as one of its channels."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mlcheck.probe.measure.data.passes import Pass
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import leaves

_FEW = 80
_FEW_MASKS = 30
_MOST = 2000
_MOST_BATCHES = 16
_ROUNDING = 1e-5
_MOST_TARGETS = 256


@dataclass(frozen=True, slots=True)
class Contained:
    """`columns` of all `width` of the flattened input `source` are the numbers of `target`, in all of `samples`."""

    target: str
    source: str
    columns: tuple[int, ...]
    samples: int
    width: int


@dataclass(frozen=True, slots=True)
class Channel:
    """Channel `number` of the input `source` is `target`, but for its unit, in all of `samples`."""

    target: str
    source: str
    number: int
    samples: int


def target_channel(split: Pass, first: FirstLoss) -> Channel | None:
    """A target of one number a place that is one of several channels of an input of its size."""
    for target in first.targets:
        for source in [name for name in first.inputs if name not in first.targets]:
            pairs = [
                (found[target], found[source])
                for batch in split.kept
                if (found := dict(leaves(batch))).keys() >= {target, source}
            ]
            masks = sum(len(wanted) for wanted, _ in pairs if wanted.ndim)
            if masks < _FEW_MASKS:
                continue
            kept = set.intersection(*(_channels(wanted, given) for wanted, given in pairs[:_MOST_BATCHES]))
            if kept:
                return Channel(part_of("batch", target), part_of("batch", source), min(kept), masks)
    return None


def _channels(wanted: Tensor, given: Tensor) -> set[int]:
    """The channels of a batch of inputs that hold its targets; none where the targets are all alike."""
    if wanted.ndim < 2 or given.ndim != wanted.ndim + 1 or not given.is_floating_point() or given.shape[1] < 2:
        return set()
    if (len(given), *given.shape[2:]) != tuple(wanted.shape) or bool((wanted == wanted.flatten()[0]).all()):
        return set()
    flat = wanted.detach().cpu().double().flatten()
    flat = flat - flat.mean()
    return {number for number in range(given.shape[1]) if _is_scaled(given[:, number], flat)}


def _is_scaled(channel: Tensor, centred: Tensor) -> bool:
    values = channel.detach().cpu().double().flatten()
    values = values - values.mean()
    slope = (values * centred).sum() / centred.pow(2).sum()
    return bool(slope != 0 and (values - slope * centred).abs().max() < _ROUNDING * values.abs().max())


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
                return Contained(
                    part_of("batch", target), part_of("batch", source), columns, len(wanted), given.shape[1]
                )
    return None


def is_left_out(seen: Contained, split: Pass) -> bool:
    """Whether the inputs of another split are the shorter ones that remain without the target."""
    widths = {
        tensor[0].numel()
        for batch in split.kept
        for name, tensor in leaves(batch)
        if part_of("batch", name) == seen.source and len(tensor)
    }
    return bool(widths) and max(widths) <= seen.width - len(seen.columns)


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
