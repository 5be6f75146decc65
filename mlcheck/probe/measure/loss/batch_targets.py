"""Which tensors of a batch models and losses were given, by their values: as they are, scaled, mixed, or in part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from mlcheck.probe.measure.loss.losses import LossCall
from mlcheck.probe.measure.tree import beside, leaves

FEW = 8
ROUNDING = 1e-5


def named(batch: Any, tensors: list[Tensor]) -> tuple[str, ...]:
    """The tensors of a batch that occur among `tensors`, whatever their shape there."""
    return tuple(name for name, leaf in leaves(batch) if any(_same_values(leaf, tensor) for tensor in tensors))


def targets_in(batch: Any, calls: list[LossCall]) -> tuple[str, ...]:
    wanted = [call.target for call in calls]
    return named(batch, wanted) or _soft(batch, calls) or _scaled(batch, wanted)


def _scaled(batch: Any, wanted: list[Tensor]) -> tuple[str, ...]:
    """Numbers that a loss received in another scale: standardised, or in other units."""
    return tuple(name for name, leaf in leaves(batch) if any(_in_scale(leaf, tensor) for tensor in wanted))


def _in_scale(one: Tensor, other: Tensor) -> bool:
    """Whether the second is the first times a number plus a number, but for rounding."""
    if one.numel() != other.numel() or one.numel() < FEW or not one.is_floating_point():
        return False
    x, y = (beside(tensor, other).double().flatten() for tensor in (one, other))
    x, y = x - x.mean(), y - y.mean()
    if not bool(x.isfinite().all() and y.isfinite().all() and x.abs().max() > 0 and y.abs().max() > 0):
        return False
    slope = (x * y).sum() / x.pow(2).sum()
    return bool((y - slope * x).abs().max() < ROUNDING * y.abs().max())


def picked_in(batch: Any, calls: list[LossCall]) -> tuple[str, ...]:
    """Those of which a loss received some places, told by a mask or by indices that the batch holds beside them.

    So are the nodes of a graph that are known, and the places of a sequence that count.
    """
    held, wanted = list(leaves(batch)), [call.target for call in calls]
    picks = [pick for name, leaf in held for pick in _picks(leaf)]
    return tuple(
        name
        for name, leaf in held
        if any(_is_picked(leaf, pick, tensor) for pick in picks for tensor in wanted if tensor.numel() >= FEW)
    )


def _picks(leaf: Tensor) -> Iterator[Tensor]:
    if leaf.is_floating_point() or leaf.is_complex() or not leaf.ndim or not leaf.numel():
        return
    if bool(((leaf == 0) | (leaf == 1)).all()):
        yield leaf.bool()
    elif leaf.ndim == 1 and int(leaf.min()) >= 0:
        yield leaf.long()


def _is_picked(leaf: Tensor, pick: Tensor, target: Tensor) -> bool:
    """Whether the target is what the mask or the indices choose, and not all."""
    if pick.dtype is torch.bool:
        if leaf.shape[: pick.ndim] != pick.shape or int(pick.sum()) in (0, pick.numel()):
            return False
    elif not leaf.ndim or len(pick) >= len(leaf) or int(pick.max()) >= len(leaf):
        return False
    return _same_values(leaf[pick], target)


def _soft(batch: Any, calls: list[LossCall]) -> tuple[str, ...]:
    """Classes of which a loss received shares: one-hot, smoothed, or mixed with those of another sample."""
    shares = [call.target for call in calls if call.target.is_floating_point() and call.target.ndim == 2]
    return tuple(name for name, leaf in leaves(batch) if any(_has_a_share(leaf, target) for target in shares))


def _has_a_share(classes: Tensor, target: Tensor) -> bool:
    """Whether each sample's class has more than the least share in its row."""
    if classes.is_floating_point() or classes.shape != target.shape[:1] or len(classes) < FEW:
        return False
    if int(classes.min()) < 0 or int(classes.max()) >= target.shape[1] or target.shape[1] < 2:
        return False
    mine = target.gather(1, beside(classes, target).long()[:, None])[:, 0]
    return bool((mine > target.min(1).values).all())


def _same_values(one: Tensor, other: Tensor) -> bool:
    if one.numel() != other.numel() or not one.numel():
        return False
    return torch.equal(beside(one, other).double().flatten(), other.detach().double().flatten())
