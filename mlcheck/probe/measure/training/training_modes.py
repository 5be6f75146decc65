"""The mode of the models in a training step, at the start and again after an evaluation."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import graph_nodes
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.modules import ModelCall, ModuleWatch, Names
from mlcheck.probe.measure.training.gradients import GradientWatch, named_parameters
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.traceback import is_user_file
from mlcheck.trial.trial import NotReached, Trial

_ROUNDS = 8
"""As many evaluations are gone through until a model is trained again: folds, clients, members of an ensemble."""
Trained = tuple[tuple[str, Location], ...]


@dataclass(frozen=True, slots=True)
class TrainingModes:
    """Models that were trained while in evaluation mode, although dropout or batch norm in them ran.

    `at_once` in the first two training steps, `after_evaluation` in the step after an evaluation. `modal` counts the
    modules that depend on the mode, those that call `F.dropout` with their own among them. A model in training mode
    whose batch norm alone is frozen is in neither.
    `left_in_eval` are models that the evaluation left so and that the step after it does not call `train()` on;
    `framework` says that one drives the loop and sets modes.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 8

    owns_loop: bool
    modal: int
    at_once: Trained
    after_evaluation: Trained
    evaluated: bool
    left_in_eval: tuple[str, ...]
    framework: bool

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - three steps, whatever the limit
        batches = first_batches(trial, 3)
        at_once, modal, _ = _step(trial, batches[0], 0)
        at_once = at_once or _step(trial, batches[1 % len(batches)], 1)[0]
        try:
            evaluated = _evaluate(trial)
        except NotReached:  # a program that evaluates before it trains was seen to train after that
            if not at_once:
                raise
            return cls(trial.owns_loop, modal, at_once, (), False, (), bool(trial.record))
        left = [(name, model) for name, model in trial.models.items() if not model.training]
        with _set_to_train() as set_again:
            after = _step_after(trial, batches[-1], {model for _, model in left} if evaluated else set())
        if after is None:
            after, evaluated, left = (), False, []
        left_in_eval = tuple(name for name, model in left if model not in set_again)
        return cls(
            trial.owns_loop, modal, at_once, after if evaluated else (), evaluated, left_in_eval, bool(trial.record)
        )


def _step_after(trial: Trial, batch: object, left: set[nn.Module]) -> Trained | None:
    """The step after an evaluation; where that leaves models in evaluation mode and the step trains others (the next
    fold's), the first one that trains one of them. None of a program that evaluates when its training is over.
    """
    try:
        after, _, ran = _step(trial, batch, 2)
    except NotReached as why:
        if why.trains_no_more:
            return None
        raise
    with suppress(NotReached):
        for index in range(3, 3 + _ROUNDS):
            if after or not left or ran & left:
                break
            _evaluate(trial)
            after, _, ran = _step(trial, batch, index)
    return after


@contextmanager
def _set_to_train() -> Iterator[set[nn.Module]]:
    """The modules that the user's own code sets to training mode within, and all their parts."""
    found: set[nn.Module] = set()
    original = nn.Module.train

    def train(module: nn.Module, mode: bool = True) -> nn.Module:
        if mode and is_user_file(sys._getframe(1).f_code.co_filename):
            found.update(module.modules())
        return original(module, mode)

    nn.Module.train = train  # type: ignore[method-assign, assignment]
    try:
        yield found
    finally:
        nn.Module.train = original  # type: ignore[method-assign]


def _step(trial: Trial, batch: object, index: int) -> tuple[Trained, int, set[nn.Module]]:
    """What was trained in evaluation mode, how many modules depend on the mode, and all that ran with gradients."""
    reached: set[Any] = set()
    gradients = GradientWatch(named_parameters(trial.models), lambda root: reached.update(graph_nodes(root)))
    modules, dropouts = ModuleWatch(), _Dropouts()
    with modules, gradients, dropouts:
        trial.train_step(batch, index)
    names = Names(trial.models)
    stale = {call.module for call in modules.modal if not call.training} | dropouts.off
    found: dict[str, Location] = {}
    for call in modules.calls:
        if call.training or not call.grad or not names.knows(call.module) or not stale & set(call.module.modules()):
            continue
        traces = [gradients.traces.get(id(parameter)) for parameter in call.module.parameters()]
        trained = any(trace.arrivals for trace in traces if trace)  # one begun anew meanwhile has other parameters
        if trained and _is_reached(call, reached):
            found.setdefault(names.path(call.module) or type(call.module).__name__, call.place)
    modal = {call.module for call in modules.modal} | dropouts.off | dropouts.on
    return tuple(found.items()), len(modal), modules.with_grad


def _is_reached(call: ModelCall, reached: set[Any]) -> bool:
    """Whether backward went through what a call gave: a look at the model beside the training teaches it nothing."""
    nodes = {tensor.grad_fn for _, tensor in leaves(call.output)} - {None}
    return call.returned and (not nodes or bool(nodes & reached))


class _Dropouts(TorchFunctionMode):
    """The modules that call `F.dropout` themselves: those for which it is `on`, and those in whose mode it is `off`."""

    def __init__(self) -> None:
        super().__init__()
        self.on: set[nn.Module] = set()
        self.off: set[nn.Module] = set()

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is F.dropout:
            self._see(*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def _see(self, _: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> None:  # noqa: ARG002
        caller = _calling_module(sys._getframe(2)) if p > 0 else None
        if caller is not None:
            (self.on if training else self.off if not caller.training else set()).add(caller)


def _calling_module(frame: FrameType | None) -> nn.Module | None:
    """The module whose own method, the user's, the nearest frame of the user's code is."""
    while frame is not None and not is_user_file(frame.f_code.co_filename):
        if isinstance(frame.f_locals.get("self"), nn.modules.dropout._DropoutNd):
            return None
        frame = frame.f_back
    caller = frame.f_locals.get("self") if frame is not None else None
    return caller if isinstance(caller, nn.Module) else None


def _evaluate(trial: Trial) -> bool:
    if trial.evaluate_step is None or trial.validation_batches is None:
        return False
    batch = next(iter(trial.validation_batches()), None)
    if batch is None:
        return False
    trial.evaluate_step(map_tensors(batch, torch.Tensor.detach))
    return True
