"""Follows every parameter's gradient through the user's own loop: filled, used by a step, cleared, filled again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from mlcheck.core.finding import Location
from mlcheck.probe.measure.place import user_location


@dataclass(slots=True)
class GradientTrace:
    """What happened to one parameter's gradient.

    `arrivals` counts accumulations, `nonzero` those that were not all zeros, `largest` is their largest element by
    magnitude. `applied` counts optimizer steps
    that had a gradient to apply; `reused` those that applied it on top of one already applied; `lost` those that
    found a gradient cleared after it had arrived; `foreign` those that applied one left over from another
    optimizer's loss. `discarded` counts arrivals that the same line of an earlier batch had made and that were cleared
    unused.
    """

    arrivals: int = 0
    nonzero: int = 0
    largest: float = 0.0
    applied: int = 0
    reused: int = 0
    lost: int = 0
    discarded: int = 0
    foreign: int = 0
    steps: int = 0
    changed: bool = False
    used: bool = False
    waiting: bool = False
    came: tuple[int, Location] = (0, Location())
    since: set[tuple[int, int]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Backward:
    """One call of backward: the value of a scalar loss, and where in the user's code it was called."""

    root: torch.Tensor
    place: Location


def loss_of_step(backwards: list[Backward]) -> float:
    """The losses of a step, summed; of a line that calls backward again and again (a closure of LBFGS) the first."""
    by_place: dict[Location, float] = {}
    for backward in backwards:
        by_place.setdefault(backward.place, float(backward.root.double().sum()))
    return sum(by_place.values())


class GradientWatch:
    """While entered, traces `parameters` through backward passes and optimizer steps, whoever calls them."""

    def __init__(
        self, parameters: list[torch.Tensor], on_backward: Callable[[torch.Tensor], None] | None = None
    ) -> None:
        self.traces: dict[int, GradientTrace] = {id(parameter): GradientTrace() for parameter in parameters}
        self.backwards: list[Backward] = []
        self.turn = 0
        self.stepped: dict[int, int] = {}
        self.step_places: dict[int, Location] = {}
        self.optimizers: dict[int, Optimizer] = {}
        self._parameters = parameters
        self._on_backward = on_backward
        self._foreign_steps = 0
        self._before: dict[int, tuple[torch.Tensor | None, bool]] = {}
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Self:
        for parameter in self._parameters:
            self._undo.append(_hook(parameter, self._arrival(parameter)))
        self._undo.append(register_optimizer_step_pre_hook(self._before_step).remove)
        self._undo.append(register_optimizer_step_post_hook(self._after_step).remove)
        original = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            for root in [tensors] if isinstance(tensors, torch.Tensor) else tensors:
                self.backwards.append(Backward(root.detach(), user_location()))
                if self._on_backward:
                    self._on_backward(root)
            original(tensors, *args, **kwargs)

        torch.autograd.backward = backward
        self._undo.append(lambda: setattr(torch.autograd, "backward", original))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for undo in reversed(self._undo):
            undo()

    def _arrival(self, parameter: torch.Tensor) -> Callable[[torch.Tensor], None]:
        trace = self.traces[id(parameter)]

        def arrive(gradient: torch.Tensor) -> None:
            now = (self.turn, self.backwards[-1].place if self.backwards else Location())
            if not _any(parameter.grad):
                before, place = trace.came
                trace.discarded += trace.waiting and before < now[0] and place == now[1]
                trace.used = trace.waiting = False
                trace.since.clear()
            trace.arrivals += 1
            if largest := _largest(gradient):
                trace.largest = max(trace.largest, largest)
                trace.nonzero += 1
                trace.waiting = True
                trace.came = now
                trace.since.add((len(self.backwards), self._foreign_steps))

        return arrive

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        self.optimizers[id(optimizer)] = optimizer
        self.step_places.setdefault(id(optimizer), user_location())
        for parameter in _held(optimizer):
            trace = self.traces.get(id(parameter))
            if trace is None:
                continue
            full = _any(parameter.grad)
            trace.steps += 1
            trace.applied += full
            trace.reused += full and trace.used and trace.waiting
            trace.lost += trace.waiting and not full
            if full and not trace.used and len({loss for loss, _ in trace.since}) > 1:
                trace.foreign += len({steps for _, steps in trace.since}) > 1
            trace.waiting = False
            value = None if trace.changed else parameter.detach().clone()
            self._before[id(parameter)] = value, full

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        self.stepped[id(optimizer)] = self.stepped.get(id(optimizer), 0) + 1
        self._foreign_steps += 1
        for parameter in _held(optimizer):
            trace = self.traces.get(id(parameter))
            if trace is None:
                continue
            full = _any(parameter.grad)
            value, was_full = self._before.pop(id(parameter))
            if trace.waiting:  # a closure called backward within the step, so what was there before is not what counts
                trace.applied += full - was_full
                trace.reused += full and trace.used
                trace.lost += not full
            trace.used = full
            trace.waiting = False
            trace.changed |= value is not None and not torch.equal(parameter.detach(), value)


def _held(optimizer: Optimizer) -> list[torch.Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _any(gradient: torch.Tensor | None) -> bool:
    """Whether a gradient holds anything but zeros; NaN counts as something."""
    if gradient is None:
        return False
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    return bool(values.any())


def _largest(gradient: torch.Tensor) -> float:
    """The largest element by magnitude, infinite where one is no number."""
    values = gradient.coalesce().values() if gradient.is_sparse else gradient
    if not values.numel():
        return 0.0
    largest = float(values.detach().abs().max())
    return math.inf if math.isnan(largest) else largest


def _hook(parameter: torch.Tensor, hook: Callable[[torch.Tensor], None]) -> Callable[[], None]:
    """Register on a leaf that may have `requires_grad` off for the moment (GANs switch it to and fro)."""
    required = parameter.requires_grad
    if not required:
        parameter.requires_grad_(True)
    try:
        return parameter.register_hook(hook).remove  # type: ignore[no-any-return, no-untyped-call]
    finally:
        if not required:
            with suppress(RuntimeError):
                parameter.requires_grad_(False)


def named_parameters(models: Mapping[str, torch.nn.Module]) -> list[torch.Tensor]:
    """Every parameter of every model, once."""
    return list({id(p): p for model in models.values() for p in model.parameters()}.values())
