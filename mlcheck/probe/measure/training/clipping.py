"""Where gradients are clipped in a few steps of the user's loop, and whether they are multiplied by a loss scale then.

On a machine without a GPU a GradScaler does nothing, but it is called all the same: the order of the calls is what
is looked at, where the program asks for half precision (autocast).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.optim import Optimizer

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import replaced
from mlcheck.probe.measure.training.clip_functions import clipping_by
from mlcheck.trial.half_precision import recorded_autocast
from mlcheck.trial.trial import Trial

STEPS = 8


@dataclass(frozen=True, slots=True)
class Clipping:
    """`clips` counts calls on gradients that a scaled loss left; `scaled` are the places of those that came before
    `unscale_`, with the optimizer that the scaler then stepped."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 10

    clips: int
    scaled: tuple[tuple[Location, str], ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        watch = _Watch()
        with recorded_autocast(act_out=False) as requests, watch.installed():
            for index, batch in enumerate(repeated_batches(trial)):
                trial.train_step(batch, index)
                if index + 1 >= STEPS:
                    break
        if not watch.clips:
            raise NotMeasured("no gradient of a scaled loss is clipped")
        if not (watch.enabled or requests.dtypes):
            raise NotMeasured("half precision is switched off, and the loss scale with it")
        names = {id(optimizer): name for name, optimizer in trial.optimizers.items()}
        found = {(place, names.get(key, "optimizer")) for place, key in watch.misplaced}
        return cls(watch.clips, tuple(sorted(found, key=lambda pair: (pair[0].path, pair[0].line))))


class _Watch:
    """Follows a scaler's protocol: scale, unscale, clip, step."""

    def __init__(self) -> None:
        self.clips = 0
        self.enabled = False
        self.misplaced: list[tuple[Location, int]] = []
        self._is_scaled = False
        self._unscaled: set[int] = set()
        self._clipped: dict[int, Location] = {}

    @contextmanager
    def installed(self) -> Iterator[None]:
        scaler = torch.amp.GradScaler
        with ExitStack() as stack:
            for owner, name, watched in (
                (scaler, "scale", self._scale),
                (scaler, "unscale_", self._unscale),
                (scaler, "step", self._step),
            ):
                stack.enter_context(replaced(owner, name, watched(getattr(owner, name))))
            stack.enter_context(clipping_by(self._clip))
            yield

    def _scale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scale(scaler: Any, outputs: Any) -> Any:
            self.enabled |= scaler.is_enabled()
            self._is_scaled = True
            return original(scaler, outputs)

        return scale

    def _unscale(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def unscale_(scaler: Any, optimizer: Optimizer) -> None:
            self._unscaled.update(map(id, _held(optimizer)))
            original(scaler, optimizer)

        return unscale_

    def _clip(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            given = [parameters] if isinstance(parameters, Tensor) else list(parameters)
            if self._is_scaled:
                self.clips += 1
                place = user_location()
                self._clipped |= {id(p): place for p in given if id(p) not in self._unscaled and p.grad is not None}
            return original(given, *args, **kwargs)

        return clip

    def _step(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def step(scaler: Any, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
            held = {id(parameter) for parameter in _held(optimizer)}
            self.misplaced += [(place, id(optimizer)) for key, place in self._clipped.items() if key in held][:1]
            self._clipped = {key: place for key, place in self._clipped.items() if key not in held}
            self._unscaled -= held
            self._is_scaled = bool(self._clipped)
            return original(scaler, optimizer, *args, **kwargs)

        return step


def _held(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]
