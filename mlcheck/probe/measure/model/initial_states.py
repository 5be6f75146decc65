"""What recurrent layers begin with in evaluation: a state that comes of the batch, a fixed one, or one drawn anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.tree import copied, leaves, map_tensors
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_RECURRENT = (nn.RNNBase, nn.RNNCellBase)


@dataclass(frozen=True, slots=True)
class Start:
    """The first call of a recurrent layer that is given a state.

    `drawn` says that under other random numbers it reads the same batch and begins otherwise; `apart` that what it
    reads changes with the batch and the state does not: a generator reads nothing of it.
    """

    layer: str
    drawn: bool
    apart: bool
    place: Location


@dataclass(frozen=True, slots=True)
class InitialStates:
    """Of each recurrent layer that an evaluation gives a state to begin with."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 3

    starts: tuple[Start, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - three passes, whatever the limit
        if not _layers(trial) or trial.evaluate_step is None or trial.validation_batches is None:
            raise NotMeasured("no recurrent layer is evaluated")
        with restored(trial):  # what evaluates last begins anew
            batch = next(iter(trial.validation_batches()), None)
        if batch is None:
            raise NotMeasured("the validation data is empty")
        batch = map_tensors(batch, Tensor.detach)
        first, again = (_begun(trial, batch, seed) for seed in (1, 2))
        other: dict[str, _Begun] = {}
        with suppress(Exception):  # a program may refuse its samples in another order
            other = _begun(trial, map_tensors(batch, _turned), 1)
        starts = [
            Start(layer, _drawn(one, again.get(layer)), _apart(one, other.get(layer)), one.place)
            for layer, one in first.items()
        ]
        if not starts:
            raise NotMeasured("no recurrent layer is given a state to begin with")
        return cls(tuple(starts))


@dataclass(frozen=True, slots=True)
class _Begun:
    """What a layer reads first, and the state that it begins with."""

    read: list[Tensor]
    state: list[Tensor]
    place: Location


def _layers(trial: Trial) -> dict[nn.Module, str]:
    """Recurrent layers and their names, which stay the same where a program is begun anew."""
    names = Names(trial.models)
    modules = (module for model in trial.models.values() for module in model.modules())
    return {module: names.module(module) for module in modules if isinstance(module, _RECURRENT)}


def _begun(trial: Trial, batch: Any, seed: int) -> dict[str, _Begun]:
    """Nothing of layers that trained meanwhile, or were given no state in their first call."""
    found: dict[str, _Begun | None] = {}
    assert trial.evaluate_step is not None
    with restored(trial), _watched(_layers(trial), found):
        seed_all(seed)
        trial.evaluate_step(copied(batch))
    return {layer: one for layer, one in found.items() if one is not None}


@contextmanager
def _watched(layers: Mapping[nn.Module, str], found: dict[str, _Begun | None]) -> Iterator[None]:
    def note(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        name = layers[layer]
        if name in found or (layer.training and torch.is_grad_enabled()):
            return
        given = dict(zip(("input", "hx"), args)) | kwargs
        read, state = ([t.detach().clone() for _, t in leaves(given.get(key))] for key in ("input", "hx"))
        found[name] = _Begun(read, state, user_location()) if state else None

    hooks = [layer.register_forward_pre_hook(note, with_kwargs=True) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _turned(tensor: Tensor) -> Tensor:
    """Another batch of the same samples: the last first."""
    return tensor.flip(0) if tensor.ndim else tensor


def _drawn(one: _Begun, again: _Begun | None) -> bool:
    return again is not None and _same(one.read, again.read) and not _same(one.state, again.state)


def _apart(one: _Begun, other: _Begun | None) -> bool:
    """Whether the layer reads the batch, and begins with what knows nothing of it."""
    return other is not None and not _same(one.read, other.read) and _same(one.state, other.state)


def _same(one: list[Tensor], other: list[Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other))
