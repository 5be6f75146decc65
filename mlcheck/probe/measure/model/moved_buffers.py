"""Buffers of the program's own that an evaluation changes, and that change what the model answers."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from mlcheck.probe.measure.drive import exclusively_evaluating
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.model_calls import CapturedCall, capture
from mlcheck.probe.measure.model.row_states import holds_rows, may_hold_rows
from mlcheck.probe.measure.tree import batch_size, map_tensors, rows
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class MovedBuffers:
    """`names` of buffers that one evaluation changed, and without which changes the model answers otherwise.

    Left out are the statistics of torch's batch norms, and what has a place for each sample: a state that is carried.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    names: tuple[str, ...]
    looked_at: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - two passes, whatever the limit
        if trial.evaluate_step is None or trial.validation_batches is None:
            raise NotMeasured("the trial has no evaluation step of its own")
        if not any(True for _ in _buffers(trial)):
            raise NotMeasured("the models hold no buffers of their own")
        seed_all(0)
        call = capture(trial)
        batch = next(iter(trial.validation_batches()), None)
        if batch is None:
            raise NotMeasured("the validation data is empty")
        kept = [(name, buffer, buffer.detach().clone()) for name, buffer in _buffers(trial, _states(trial, batch))]
        trial.evaluate_step(map_tensors(batch, Tensor.detach))
        changed = [one for one in kept if not torch.equal(one[1].nan_to_num(), one[2].nan_to_num())]
        with exclusively_evaluating(iter(trial.models.values())), torch.no_grad():
            return cls(tuple(name for name, *both in changed if _matters(call, *both)), len(kept))


def _buffers(trial: Trial, without: Collection[str] = ()) -> Iterator[tuple[str, Tensor]]:
    several = len(trial.models) > 1
    for key, model in trial.models.items():
        for path, module in model.named_modules():
            for name, buffer in module.named_buffers(recurse=False) if not isinstance(module, _BatchNorm) else ():
                full = ".".join(part for part in (key if several else "", path, name) if part)
                if buffer.is_floating_point() and full not in without:
                    yield full, buffer


def _states(trial: Trial, batch: Any) -> set[str]:
    """Buffers with a place for each sample, as an evaluation of one sample less shows."""
    size = batch_size(batch)
    if size is None:
        return set()
    before = {name: buffer.detach().clone() for name, buffer in _buffers(trial) if may_hold_rows(buffer, size)}
    if not before or trial.evaluate_step is None:
        return set()
    with restored(trial):
        try:
            trial.evaluate_step(map_tensors(rows(batch, torch.arange(size - 1)), Tensor.detach))
        except Exception:  # it takes no fewer
            return set(before)
        after = {name: buffer.detach().clone() for name, buffer in _buffers(trial)}
    return {name for name, buffer in before.items() if holds_rows(buffer, after.get(name, buffer), size)}


def _matters(call: CapturedCall, buffer: Tensor, before: Tensor) -> bool:
    """Whether the model answers otherwise with the buffer as it was before the evaluation."""
    now, after = call.replay(), buffer.detach().clone()
    buffer.copy_(before)
    then = call.replay()
    buffer.copy_(after)
    return any(not torch.equal(one, other) for one, other in zip(now, then))
