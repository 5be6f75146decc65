"""Whether two splits of the same tensors, told apart by a mask or indices alone, share places: nodes of one graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from mlcheck.probe.measure.data.passes import Pass
from mlcheck.probe.measure.tree import leaves


@dataclass(frozen=True, slots=True)
class SharedPlaces:
    """`shared` of the `held_out` places that a mask or indices, `name`, pick for validation are picked for training."""

    name: str
    shared: int
    held_out: int


def shared_places(training: Pass, validation: Pass) -> SharedPlaces | None:
    """None where the splits are not one batch each, of the same tensors but for what picks."""
    if not (training.whole and validation.whole and len(training.kept) == len(validation.kept) == 1):
        return None
    one, other = dict(leaves(training.kept[0])), dict(leaves(validation.kept[0]))
    if one.keys() != other.keys():
        return None
    differing = [name for name in one if not torch.equal(one[name], other[name])]
    if len(differing) != 1:
        return None
    (name,) = differing
    alike = [tensor for key, tensor in one.items() if key != name and tensor.ndim > 1 and tensor.is_floating_point()]
    places = max((len(tensor) for tensor in alike), default=0)
    first, second = (_picked(tensors[name], places) for tensors in (one, other))
    if first is None or second is None or not len(second):
        return None
    return SharedPlaces(name, int(torch.isin(second, first).sum()), len(second))


def _picked(pick: Tensor, places: int) -> Tensor | None:
    """The places that a mask of all of them holds, or that indices name."""
    if pick.ndim != 1 or pick.is_floating_point() or not pick.numel():
        return None
    if pick.dtype is torch.bool:
        return pick.nonzero()[:, 0] if len(pick) == places else None
    within = int(pick.min()) >= 0 and int(pick.max()) < places > len(pick)
    different: Tensor = torch.unique(pick)
    return different if within and len(different) == len(pick) else None
