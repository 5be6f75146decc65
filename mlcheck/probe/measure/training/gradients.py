"""Follows every parameter's gradient through the user's own loop: filled, used by a step, cleared, filled again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import weighed
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.training.extents import extent_of, extents_of, filled, magnitudes, moved
from mlcheck.probe.measure.training.gradient_trace import Arrival, GradientTrace
from mlcheck.probe.measure.training.leaf_hooks import leaf_hook


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


def single_loss(watch: GradientWatch, optimizers: Collection[Optimizer]) -> float:
    """The loss of a step that was watched; inconclusive where there is none, or where optimizers take turns."""
    if not watch.backwards:
        raise inconclusive("the training step calls no backward, so there is no loss to follow")
    together = len(watch.backwards) == 1 and len(watch.stepped) == len(optimizers)
    if len(optimizers) > 1 and not together:
        raise inconclusive("several optimizers take turns (as in a GAN): no single loss has to fall or to have a bound")
    return loss_of_step(watch.backwards)


class GradientWatch:
    """While entered, traces `parameters` through backward passes and optimizer steps, whoever calls them."""

    def __init__(
        self, parameters: list[torch.Tensor], on_backward: Callable[[torch.Tensor], None] | None = None
    ) -> None:
        self._traces = {id(parameter): GradientTrace() for parameter in parameters}
        self.backwards: list[Backward] = []
        self.turn = 0
        self.stepped: dict[int, int] = {}
        self.step_places: dict[int, Location] = {}
        self.optimizers: dict[int, Optimizer] = {}
        self._parameters = parameters
        self._on_backward = on_backward
        self._foreign_steps = 0
        self._now = (0, Location())
        self._since = (0, 0)
        self._arrivals: list[Arrival] = []
        self._fresh: list[tuple[torch.Tensor, tuple[int, Location], tuple[int, int]]] = []
        self._before: dict[int, _Before] = {}
        self._applied: dict[int, tuple[Optimizer, torch.Tensor, int]] = {}
        self._within: list[Optimizer] = []
        self._undo = ExitStack()

    @property
    def traces(self) -> dict[int, GradientTrace]:
        """What happened so far, by the parameter's identity."""
        self._settle()
        return self._traces

    def __enter__(self) -> Self:
        for parameter in self._parameters:
            self._undo.callback(leaf_hook(parameter, self._arrival(parameter)))
        self._undo.callback(register_optimizer_step_pre_hook(self._before_step).remove)
        self._undo.callback(register_optimizer_step_post_hook(self._after_step).remove)
        original = torch.autograd.backward

        def backward(tensors: Any, *args: Any, **kwargs: Any) -> None:
            for root in [tensors] if isinstance(tensors, torch.Tensor) else tensors:
                place = user_location()
                self.backwards.append(Backward(root.detach(), place))
                self._now, self._since = (self.turn, place), (len(self.backwards), self._foreign_steps)
                if self._on_backward:
                    self._on_backward(weighed(root, *args[:1], kwargs.get("grad_tensors")))
            try:
                original(tensors, *args, **kwargs)
            finally:
                self._look_at_fresh()

        torch.autograd.backward = backward
        self._undo.callback(setattr, torch.autograd, "backward", original)
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def _arrival(self, parameter: torch.Tensor) -> Callable[[torch.Tensor], None]:
        trace = self._traces[id(parameter)]

        def arrive(gradient: torch.Tensor) -> None:
            held = parameter.grad
            if held is None and not parameter._post_accumulate_grad_hooks:  # which may use it up at once
                self._fresh.append((parameter, self._now, self._since))
                return
            before = None if held is None else extent_of(held)
            self._arrivals.append(Arrival(trace, before, extent_of(gradient), self._now, self._since))

        return arrive

    def _look_at_fresh(self) -> None:
        """Gradients that came to nothing before them are, after backward, what lies there: looked at all at once."""
        fresh, self._fresh = self._fresh, []
        extents = extents_of([parameter.grad for parameter, _, _ in fresh])
        for (parameter, now, since), extent in zip(fresh, extents, strict=True):
            self._arrivals.append(Arrival(self._traces[id(parameter)], None, extent, now, since))

    def _settle(self) -> None:
        """Read what has arrived since this was last asked for."""
        self._look_at_fresh()
        if not self._arrivals:
            return
        arrivals, self._arrivals = self._arrivals, []
        largest = magnitudes([one for arrival in arrivals for one in (arrival.before, arrival.gradient)])
        for arrival, before, now in zip(arrivals, largest[::2], largest[1::2], strict=True):
            arrival.settle(before, now)

    def _before_step(self, optimizer: Optimizer, *_: Any) -> None:
        if id(optimizer) not in self.optimizers:
            self.optimizers[id(optimizer)] = optimizer
            self.step_places[id(optimizer)] = user_location()
        if optimizer in self._within:  # its last step raised
            del self._within[self._within.index(optimizer) :]
        self._within.append(optimizer)
        held = self._held(optimizer)
        if not held:
            return
        self._settle()
        for group in optimizer.param_groups:
            for trace in (self._traces.get(id(parameter)) for parameter in group["params"]):
                if trace is not None:
                    trace.rate = max(trace.rate, float(group.get("lr", 1.0)))
        unmoved = [parameter for parameter, trace in held if not trace.changed]
        values = dict(zip(map(id, unmoved), _copies(unmoved), strict=True))
        for (parameter, trace), full in zip(held, filled([parameter.grad for parameter, _ in held]), strict=True):
            trace.steps += 1
            trace.applied += full
            trace.reused += full and trace.used and trace.waiting
            trace.lost += trace.waiting and not full
            again = full and not trace.waiting and self._is_applied(parameter, optimizer)
            if full and not trace.used and len(trace.since) > 1:
                losses, steps = map(set, zip(*trace.since, strict=True))
                trace.foreign += len(losses) > 1 and len(steps) > 1
            trace.waiting = False
            value = values.get(id(parameter))
            self._before[id(parameter)] = _Before(value, full, parameter.grad, _version(parameter.grad), again)

    def _after_step(self, optimizer: Optimizer, *_: Any) -> None:
        self.stepped[id(optimizer)] = self.stepped.get(id(optimizer), 0) + 1
        self._foreign_steps += 1
        self._since = len(self.backwards), self._foreign_steps
        held = self._held(optimizer)
        self._within = self._within[: self._within.index(optimizer)] if optimizer in self._within else []
        if not held:
            return
        self._settle()
        befores = [self._before.pop(id(parameter)) for parameter, _ in held]
        kept = [(p.detach(), before.value) for (p, _), before in zip(held, befores) if before.value is not None]
        changes = iter(moved(kept))
        for (parameter, trace), before in zip(held, befores, strict=True):
            gradient = parameter.grad
            untouched = gradient is before.gradient and _version(gradient) == before.version
            full = before.full if untouched else filled([gradient])[0]
            if trace.waiting:  # a closure called backward within the step, so what was there before is not what counts
                trace.applied += full - before.full
                trace.reused += full and trace.used
                trace.lost += not full
            trace.twice += before.again and not trace.waiting
            if gradient is not None:
                self._applied[id(parameter)] = optimizer, gradient, gradient._version
            trace.used = full
            trace.waiting = False
            trace.changed |= before.value is not None and next(changes)

    def _is_applied(self, parameter: torch.Tensor, optimizer: Optimizer) -> bool:
        """Whether the gradient that lies there is the one that another optimizer has applied, untouched since."""
        other, gradient, version = self._applied.get(id(parameter), (optimizer, None, 0))
        return other is not optimizer and parameter.grad is gradient and _version(gradient) == version

    def _held(self, optimizer: Optimizer) -> list[tuple[torch.Tensor, GradientTrace]]:
        """The parameters of an optimizer that are traced; none of one that another's step calls: that is the step."""
        if not self._traces or self._within[:1] not in ([], [optimizer]):
            return []
        held = (parameter for group in optimizer.param_groups for parameter in group["params"])
        return [(parameter, self._traces[id(parameter)]) for parameter in held if id(parameter) in self._traces]


class _Before(NamedTuple):
    """A parameter before a step: its value where that matters, its gradient, its version, whether it is filled.

    `again` says that another optimizer has just applied this very gradient.
    """

    value: torch.Tensor | None
    full: bool
    gradient: torch.Tensor | None
    version: int
    again: bool


def _version(gradient: torch.Tensor | None) -> int:
    return 0 if gradient is None else gradient._version


@torch.no_grad()
def _copies(parameters: list[torch.Tensor]) -> list[torch.Tensor]:
    return [parameter.clone() for parameter in parameters]


def named_parameters(models: Mapping[str, torch.nn.Module]) -> list[torch.Tensor]:
    """Every parameter of every model, once."""
    return list({id(p): p for model in models.values() for p in model.parameters()}.values())
