"""How the user's loop really uses its gradient scaler: every call of it, of clipping and of the optimizers, in order.

The calls are the same whether the scaler is enabled or not, so that a loop for a GPU can be followed without one.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import inconclusive, repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.training.called import SCALER
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.half_precision import recorded_autocast
from mlcheck.trial.trial import Trial

_STEPS = 3
_MOST_BATCHES = 24
_CLIPS = ("clip_grad_norm_", "clip_grad_value_")
_NONE = "the program uses no gradient scaler"


@dataclass(frozen=True, slots=True)
class Deed:
    """`what` is scale, backward, unscale, clip, scaler.step, step, update or get_scale.

    `optimizers` are those concerned, by number: of a clip, whose weights it clips. `where` it was called.
    """

    what: str
    optimizers: tuple[int, ...]
    place: Location


@dataclass(frozen=True, slots=True)
class ScalerCalls:
    """All deeds of a few updates, in order."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    deeds: tuple[Deed, ...]
    updates: int

    @classmethod
    def absent(cls, called: frozenset[str]) -> str:
        return "" if SCALER in called else _NONE

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        watch = _Watch(trial)
        with recorded_autocast(act_out=False) as requests, watch.installed():
            for index, batch in enumerate(repeated_batches(trial)):
                try:
                    trial.train_step(copied(batch) if trial.repeats_batches else batch, index)
                except (
                    RuntimeError
                ):  # a scaler refuses a wrong order at its second update: what was seen till then tells
                    if not watch.updates:
                        raise
                    break
                if watch.updates >= _STEPS or index >= _MOST_BATCHES:
                    break
        if not any(deed.what in ("scale", "scaler.step") for deed in watch.deeds):
            raise NotMeasured(_NONE)
        if not requests.dtypes and not watch.enabled:
            raise NotMeasured("the gradient scaler is switched off, as is autocast")
        if not watch.updates:
            raise inconclusive(f"no optimizer was stepped in {_MOST_BATCHES} batches")
        return cls(tuple(watch.deeds), watch.updates)


@dataclass
class _Watch:
    trial: Trial
    deeds: list[Deed] = field(default_factory=list)
    updates: int = 0
    enabled: bool = False
    _within: int = 0

    @contextmanager
    def installed(self) -> Iterator[None]:
        scaler = torch.amp.GradScaler
        with ExitStack() as stack:
            for name, what in (("scale", "scale"), ("unscale_", "unscale"), ("step", "scaler.step")):
                self._replace(stack, scaler, name, self._noting(what, getattr(scaler, name)))
            for name in ("update", "get_scale"):
                self._replace(stack, scaler, name, self._noting(name, getattr(scaler, name)))
            for name in _CLIPS:
                self._replace(stack, nn.utils, name, self._clipping(getattr(nn.utils, name)))
            self._replace(stack, torch.autograd, "backward", self._noting("backward", torch.autograd.backward))
            stack.callback(register_optimizer_step_pre_hook(self._stepped).remove)
            yield

    def _replace(self, stack: ExitStack, owner: Any, name: str, value: Any) -> None:
        stack.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def _noting(self, what: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def noted(*args: Any, **kwargs: Any) -> Any:
            if self._within:
                return original(*args, **kwargs)
            if what not in ("backward", "update", "get_scale"):
                self.enabled |= args[0].is_enabled()
            optimizer = args[1] if what in ("unscale", "scaler.step") and len(args) > 1 else kwargs.get("optimizer")
            self._note(what, self._number(optimizer))
            self._within += 1
            try:
                return original(*args, **kwargs)
            finally:
                self._within -= 1

        return noted

    def _clipping(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def clipped(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            weights = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            known = {id(weight) for weight in weights}
            owners = [
                number
                for number, optimizer in enumerate(self.trial.optimizers.values())
                if any(id(weight) in known for group in optimizer.param_groups for weight in group["params"])
            ]
            self._note("clip", tuple(owners))
            return original(weights, *args, **kwargs)

        return clipped

    def _stepped(self, optimizer: Any, _args: Any, _kwargs: Any) -> None:
        self.updates += 1
        if not self._within:
            self._note("step", self._number(optimizer))

    def _number(self, optimizer: Any) -> tuple[int, ...]:
        known = list(self.trial.optimizers.values())
        return tuple(number for number, each in enumerate(known) if each is optimizer)

    def _note(self, what: str, optimizers: tuple[int, ...]) -> None:
        self.deeds.append(Deed(what, optimizers, user_location()))


@dataclass(frozen=True, slots=True)
class Disorder:
    """What was done out of its order, in words, with what to do."""

    told: str
    help: str
    place: Location


def disorders(calls: ScalerCalls) -> list[Disorder]:
    """Each kind once. Nothing is said of a loop that unscales by hand (it asks for the scale)."""
    if any(deed.what == "get_scale" for deed in calls.deeds):
        return []
    found: dict[str, Disorder] = {}
    for optimizer in sorted({number for deed in calls.deeds for number in deed.optimizers}):
        for disorder in _of_optimizer(calls.deeds, optimizer):
            found.setdefault(disorder.told, disorder)
    return list(found.values())


def _of_optimizer(deeds: tuple[Deed, ...], number: int) -> Iterator[Disorder]:
    """Follows the gradients of one optimizer from update to update."""
    scaled_loss = scaled = unscaled = False
    plain = due = 0
    for deed in deeds:
        mine = number in deed.optimizers
        if deed.what == "scale":
            scaled_loss = True
        elif deed.what == "backward":
            if unscaled and scaled_loss:
                yield Disorder(_ADDED, "unscale once, after the last backward pass of an update", deed.place)
            scaled, plain, scaled_loss = scaled or scaled_loss, plain + (not scaled_loss), False
        elif deed.what == "unscale" and mine:
            if due:
                yield Disorder("scaler.unscale_ is called again without an update", _UPDATE, deed.place)
            elif unscaled:
                yield Disorder("unscale_ is called twice in one update", "call it once", deed.place)
            unscaled = True
        elif deed.what == "clip" and mine and scaled and not unscaled:
            yield Disorder(_CLIPPED, "call scaler.unscale_(optimizer) right before clipping", deed.place)
        elif deed.what == "scaler.step" and mine:
            if due:
                yield Disorder("scaler.step is called again without an update", _UPDATE, deed.place)
            if plain and not scaled:
                yield Disorder(_DIVIDED, "call backward on scaler.scale(loss)", deed.place)
            scaled = unscaled = False
            plain, due = 0, due + 1
        elif deed.what == "step" and mine:
            if scaled and not unscaled and not plain:
                yield Disorder(_BYPASSED, "call scaler.step(optimizer) instead of optimizer.step()", deed.place)
            scaled = unscaled = False
            plain = 0
        elif deed.what == "update":
            due = 0


_ADDED = "scaled gradients are added to gradients that were unscaled already"
_CLIPPED = "gradients are clipped while they are still scaled, so that the limit means another in every step"
_DIVIDED = "scaler.step divides gradients by a scale that their loss was never multiplied with"
_BYPASSED = "the loss is scaled, and the optimizer steps along the scaled gradients"
_UPDATE = "call scaler.update() once, after all optimizers have stepped"
