"""Tensors of a batch that are one and the same, and are given to a model beside each other: views of a sample."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.nn.modules.dropout import _DropoutNd

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModelCall, ModuleWatch
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import Trial

BATCHES = 3


@dataclass(frozen=True, slots=True)
class TwinViews:
    """`pairs` of names, of each of which a model was given both: stacked in one call, or in two calls.

    `names` are all of them; `equal` are those that are equal in every number of `samples` rows.
    `dropout` says that the models draw random numbers of their own, which makes two passes of one input differ.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    pairs: int
    equal: tuple[tuple[str, str], ...]
    samples: int
    dropout: bool
    place: Location
    names: tuple[tuple[str, str], ...] = ()

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        batches = first_batches(trial, BATCHES)
        views = dict(_views(batches[0]))
        alike = [pair for pair in combinations(views, 2) if _alike(views[pair[0]], views[pair[1]])]
        if not alike:
            raise NotMeasured("no two tensors of a batch have the same shape")
        watch = ModuleWatch()
        with stilled(trial), watch:
            seed_all(0)
            trial.train_step(copied(batches[0]), 0)
        given = [(call, tensor) for call in watch.calls for tensor in _tensors((call.args, call.kwargs))]
        pairs = [(one, other) for one, other in alike if _both(views[one], views[other], given)]
        if not pairs:
            raise NotMeasured("no two tensors of a batch go through a model side by side")
        equal = tuple(pair for pair in pairs if all(_equal(batch, pair) for batch in batches))
        dropout = any(isinstance(call.module, _DropoutNd) and call.training for call in watch.modal)
        samples = sum(len(next(iter(dict(_views(batch)).values()))) for batch in batches)
        return cls(len(pairs), equal, samples, dropout, watch.calls[0].place, tuple(pairs))


def _views(batch: Any) -> Iterator[tuple[str, Tensor]]:
    for name, tensor in leaves(batch):
        if tensor.is_floating_point() and tensor.ndim > 1 and tensor.numel():
            yield name, tensor


def _tensors(given: Any) -> Iterator[Tensor]:
    return (tensor.detach() for _, tensor in leaves(given))


def _alike(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and one.dtype == other.dtype


def _both(one: Tensor, other: Tensor, given: list[tuple[ModelCall, Tensor]]) -> bool:
    """Whether both went into one module: stacked along the samples, or by calls of their own."""
    for stacked in (torch.cat([one, other]), torch.cat([other, one])):
        if any(_same(stacked, tensor) for _, tensor in given):
            return True
    mine = [call for call, tensor in given if _same(one, tensor)]
    theirs = [call for call, tensor in given if _same(other, tensor)]
    return any(first is not second and first.module is second.module for first in mine for second in theirs)


def _same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.to(other.device, other.dtype), other)


def _equal(batch: Any, pair: tuple[str, str]) -> bool:
    found = dict(leaves(batch))
    return all(name in found for name in pair) and torch.equal(found[pair[0]], found[pair[1]])
