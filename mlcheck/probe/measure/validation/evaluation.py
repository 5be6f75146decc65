"""The user's evaluation of one batch, twice: the modes it runs in, what it changes, whether it repeats itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch.nn.modules.batchnorm import _BatchNorm

from mlcheck.core.finding import Location
from mlcheck.probe.measure.data.sample_tensors import digest
from mlcheck.probe.measure.loss.losses import FunctionalDropout, LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModelCall, ModuleWatch, Names
from mlcheck.probe.measure.tree import copied, leaves, map_tensors
from mlcheck.probe.measure.validation.logged import metrics_alone, numbers
from mlcheck.probe.measure.validation.thinning import Thinning
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import Trial

_SEVERAL = 5
_BY_HAND = "dropout written by hand"
_ALWAYS = "its mask of random zeros, scaled by what it keeps, is drawn whatever the mode"


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Two evaluations of the same validation batch under different random seeds.

    `training` are the dropout and batch-norm modules that ran in training mode, `modal` counts all that ran.
    `changed_buffers` and `changed_parameters` were altered by evaluating. `metrics` holds the two values of
    every metric, `first_difference` the module whose output was the first to differ, `draws` the places where
    the evaluation drew random numbers. `repeats` is False where the program draws its batches itself, so that the
    two need not have been the same. `first_nan` is the first module that gave NaN. `hiding` and `jittering` are places
    of a model in evaluation mode that multiply values by random zeros and ones, and that add random numbers. `asked` is
    how often one model was given the same.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 8

    training: tuple[tuple[str, Location], ...]
    modal: int
    changed_buffers: tuple[str, ...]
    changed_parameters: tuple[str, ...]
    dropouts: tuple[FunctionalDropout, ...]
    metrics: dict[str, tuple[float, float]]
    compared: int
    first_difference: str
    draws: tuple[tuple[str, Location], ...]
    place: Location
    repeats: bool = True
    first_nan: str = ""
    hiding: tuple[Location, ...] = ()
    jittering: tuple[Location, ...] = ()
    asked: int = 1

    @property
    def samples_dropout(self) -> bool:
        """Whether what dropout leaves is drawn several times and put together: Monte Carlo dropout."""
        return self.asked >= _SEVERAL and not self.changed_buffers

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        batch = _validation_batch(trial)
        names = Names(trial.models)
        before = _state(trial)
        first = _Pass(trial, batch, seed=1)
        buffers, parameters = _changes(before)
        _restore(before)
        second = _Pass(trial, batch, seed=2)
        _restore(before)
        training = {call.module: call.place for call in first.modules.modal if call.training}
        return cls(
            training=tuple((names.module(module), place) for module, place in training.items()),
            modal=len({call.module for call in first.modules.modal}),
            changed_buffers=buffers,
            changed_parameters=parameters,
            dropouts=tuple({(drop.name, drop.place): drop for drop in first.dropouts}.values()),
            metrics=_both(first.metrics, second.metrics),
            compared=min(len(first.outputs), len(second.outputs)),
            first_difference=_first_difference(first, second, names),
            draws=tuple(dict.fromkeys((name, place) for name, place in first.losses.draws if place.path)),
            place=first.modules.calls[0].place if first.modules.calls else Location(),
            repeats=trial.repeats_batches and not trial.draws_batches,
            first_nan=next(
                (names.module(m) for m, kept in first.outputs if any(bool(t.isnan().any()) for t in kept)), ""
            ),
            hiding=first.hiding,
            jittering=first.jittering,
            asked=_asked(first.modules.calls),
        )


class _Pass:
    """One evaluation with all module outputs kept, inner ones first."""

    def __init__(self, trial: Trial, batch: Any, seed: int) -> None:
        self.outputs: list[tuple[nn.Module, list[torch.Tensor]]] = []
        self.losses = LossWatch()
        self.modules = ModuleWatch(observe=self._observe)
        thinning = Thinning()
        seed_all(seed)
        with thinning, self.losses, self.modules:
            found = metrics_alone(trial, copied(batch))
        self.metrics = found
        self.hiding, self.jittering = (tuple(dict.fromkeys(at)) for at in (thinning.hiding, thinning.jittering))
        self.dropouts = [
            *self.losses.dropouts,
            *(FunctionalDropout(_BY_HAND, place, _ALWAYS) for place in thinning.places),
        ]

    def _observe(self, module: nn.Module, output: Any) -> None:
        """Within vmap an output is a stand-in for many, which means nothing outside of it."""
        kept = [t.detach().clone() for _, t in leaves(output) if not is_functorch_wrapped_tensor(t)]
        self.outputs.append((module, kept))


def _asked(calls: list[ModelCall]) -> int:
    """The most calls of one module with the same tensors."""
    given = Counter(
        (id(call.module), digest([tensor.detach() for _, tensor in leaves((call.args, call.kwargs))])) for call in calls
    )
    return max(given.values(), default=0)


def _validation_batch(trial: Trial) -> Any:
    if trial.evaluate_step is None or trial.validation_batches is None:
        raise NotMeasured("the trial has no evaluation step of its own")
    batch = next(iter(trial.validation_batches()), None)
    if batch is None:
        raise NotMeasured("the validation data is empty")
    return map_tensors(batch, torch.Tensor.detach)


State = list[tuple[str, torch.Tensor, torch.Tensor, bool]]


def _state(trial: Trial) -> State:
    """Name, tensor, copy and whether it is a parameter: of all that evaluation must leave alone."""
    found: State = []
    several = len(trial.models) > 1
    for key, model in trial.models.items():
        prefix = f"{key}." if several else ""
        found += [(prefix + name, p, p.detach().clone(), True) for name, p in model.named_parameters()]
        found += [(prefix + name, b, b.detach().clone(), False) for name, b in _running_statistics(model)]
    return found


def _running_statistics(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [
        (f"{path}.{name}" if path else name, buffer)
        for path, module in model.named_modules()
        if isinstance(module, _BatchNorm)
        for name, buffer in module.named_buffers(recurse=False)
    ]


def _changes(before: State) -> tuple[tuple[str, ...], tuple[str, ...]]:
    changed = [(name, is_parameter) for name, now, then, is_parameter in before if not _same(now, then)]
    buffers = tuple(name for name, is_parameter in changed if not is_parameter)
    return buffers, tuple(name for name, is_parameter in changed if is_parameter)


def _restore(before: State) -> None:
    with torch.no_grad():
        for _, tensor, value, _ in before:
            tensor.copy_(value)


def _both(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    """Every metric that is one number, in both evaluations."""
    others = numbers(second)
    return {name: (number, others[name]) for name, number in numbers(first).items() if name in others}


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Bitwise, with NaN equal to NaN."""
    return one.shape == other.shape and bool(((one == other) | ((one != one) & (other != other))).all())


def _first_difference(first: _Pass, second: _Pass, names: Names) -> str:
    for (module, here), (other, there) in zip(first.outputs, second.outputs):
        if type(module) is not type(other):
            return names.module(module)
        if len(here) != len(there) or not all(_same(a, b) for a, b in zip(here, there)):
            return names.module(module)
    return ""
