"""Inputs that share no batch dimension, as nodes and edges of graphs: each is rearranged within itself."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from mlcheck.probe.measure.drive import exclusively_evaluating
from mlcheck.probe.measure.model.model_calls import CapturedCall
from mlcheck.probe.measure.modules import by_parameter
from mlcheck.probe.measure.tree import map_tensors
from mlcheck.trial.trial import Trial

FEW = 4


def uses(trial: Trial, call: CapturedCall) -> dict[str, bool]:
    """For every tensor given as an argument by itself: did the output ever change when its numbers changed places?

    In both modes: what only one of them uses is used. Its numbers stay among those it had, so that an index stays one.
    """
    with exclusively_evaluating(iter(trial.models.values())):
        tried = _tried(call)
    unused = [name for name, changed in tried.items() if not changed]
    return {**tried, **{name: changed for name, changed in _tried(call).items() if name in unused}} if unused else tried


def _tried(call: CapturedCall) -> dict[str, bool]:
    before = call.replay()
    given = by_parameter(call.module, call.args, call.kwargs)
    found = {}
    for name, leaf in given.items():
        others = list(_rearranged(leaf)) if isinstance(leaf, Tensor) else []
        if len(others) >= 2:
            found[name] = any(_changes(call, before, leaf, other) for other in others)
    return found


def _rearranged(leaf: Tensor) -> Iterator[Tensor]:
    """Along its longest dimension: moved by one, turned round, and the first twice; each line by an amount of its own.

    All lines by the same would change no graph, whose edges have no order.
    """
    if not leaf.ndim or leaf.numel() < FEW:
        return
    longest = max(range(leaf.ndim), key=lambda dim: leaf.shape[dim])
    lines = leaf.movedim(longest, -1)
    shape = lines.shape
    lines = lines.reshape(-1, shape[-1])
    places = torch.arange(shape[-1], device=leaf.device)
    shifts = 1 + torch.arange(len(lines), device=leaf.device) % (shape[-1] - 1)
    each_its_own = lines.gather(1, (places - shifts[:, None]) % shape[-1])
    first_turned = torch.cat([lines[:1].flip(1), lines[1:]])
    first_twice = lines[:, places.clamp_min(1)]
    for other in (each_its_own, first_turned, first_twice):
        changed = other.reshape(shape).movedim(-1, longest)
        if not torch.equal(changed, leaf):
            yield changed.contiguous()


def _changes(call: CapturedCall, before: list[Tensor], leaf: Tensor, other: Tensor) -> bool:
    """A model that refuses what it is given has looked at it."""
    moved = map_tensors({"args": call.args, "kwargs": call.kwargs}, lambda tensor: other if tensor is leaf else tensor)
    try:
        after = call.replay((moved["args"], moved["kwargs"]))
    except Exception:
        return True
    return len(before) != len(after) or not all(torch.equal(one, two) for one, two in zip(before, after))
