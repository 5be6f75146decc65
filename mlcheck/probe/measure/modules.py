"""Sees the forward passes of modules: which one was called from outside, with what, in which mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from mlcheck.core.finding import Location
from mlcheck.probe.measure.criteria import is_criterion, is_given_results
from mlcheck.probe.measure.place import user_location


@dataclass(slots=True)
class ModelCall:
    """A call of a module that no other module made: what the user's loop gave to its model, and got.

    One that has not `returned` raised, or is where a script without a loader waits for its next step, which calls anew.
    """

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    place: Location
    training: bool
    output: Any = None
    grad: bool = True
    returned: bool = False


@dataclass(slots=True)
class ModalCall:
    """A pass through a module that behaves differently in training: dropout, batch normalisation."""

    module: nn.Module
    training: bool
    place: Location


Arguments = tuple[tuple[Any, ...], dict[str, Any]]
Intervention = Callable[[nn.Module, tuple[Any, ...], dict[str, Any]], Arguments]
Observer = Callable[[nn.Module, Any], None]
Reply = Callable[[Any], Any]


class ModuleWatch:
    """While entered, records outermost calls of `nn.Module`s and every pass through dropout and batch norm.

    Losses are no such calls, be they torch's own or the program's.

    `intervene` may replace the arguments of an outermost call, `reply` its output; `observe` sees every module's
    output, inner ones first. `without_grad` holds the modules that ran while gradients were off. Replaces
    `nn.Module.__call__` meanwhile, as torch.fx does: hooks miss keyword arguments.
    """

    def __init__(
        self, intervene: Intervention | None = None, observe: Observer | None = None, reply: Reply | None = None
    ) -> None:
        self.calls: list[ModelCall] = []
        self.modal: list[ModalCall] = []
        self.with_grad: set[nn.Module] = set()
        self.without_grad: set[nn.Module] = set()
        self._intervene = intervene
        self._observe = observe
        self._reply = reply
        self._depth = 0

    def __enter__(self) -> Self:
        self._original = original = nn.Module.__call__

        def call(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            return self._watched(original, module, args, kwargs)

        nn.Module.__call__ = call  # type: ignore[method-assign]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        nn.Module.__call__ = self._original  # type: ignore[method-assign]

    def _watched(
        self, original: Callable[..., Any], module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        seen = None
        if self._depth == 0 and not isinstance(module, nn.modules.loss._Loss):
            if self._intervene and not is_given_results(module, (args, kwargs), (call.output for call in self.calls)):
                args, kwargs = self._intervene(module, args, kwargs)
            seen = ModelCall(module, args, kwargs, user_location(), module.training, grad=torch.is_grad_enabled())
            self.calls.append(seen)
        if isinstance(module, (_BatchNorm, _DropoutNd)) and _acts_differently(module):
            self.modal.append(ModalCall(module, module.training, user_location()))
        (self.with_grad if torch.is_grad_enabled() else self.without_grad).add(module)
        self._depth += 1
        try:
            output = original(module, *args, **kwargs)
        finally:
            self._depth -= 1
        if seen and is_criterion(module, (args, kwargs), output):
            self.calls.pop()
        elif seen:
            output = self._reply(output) if self._reply else output
            seen.output, seen.returned = output, True
        if self._observe:
            self._observe(module, output)
        return output


def _acts_differently(module: nn.Module) -> bool:
    """Dropout of nothing and batch norm without running statistics are the same in both modes."""
    if isinstance(module, _DropoutNd):
        return module.p > 0
    return getattr(module, "running_mean", None) is not None


def by_parameter(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names that `forward` gives them, in order; `0`, `1` where it gives none."""
    names = [
        parameter.name
        for parameter in inspect.signature(module.forward).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    named = {(names[i] if i < len(names) else str(i)): argument for i, argument in enumerate(args)}
    return {**named, **kwargs}


class Names:
    """What the user calls a module or parameter: its path below the model, the model's name where there are several."""

    def __init__(self, models: Mapping[str, nn.Module]) -> None:
        self._modules: dict[nn.Module, str] = {}
        self._parameters: dict[int, str] = {}
        several = len(models) > 1
        for key, model in models.items():
            for name, module in model.named_modules():
                self._modules.setdefault(module, ".".join(part for part in (key if several else "", name) if part))
            for name, parameter in model.named_parameters():
                self._parameters.setdefault(id(parameter), f"{key}.{name}" if several else name)

    def module(self, module: nn.Module) -> str:
        """`encoder.3 (Dropout)`; only the class of a module that belongs to no model."""
        name = self._modules.get(module)
        kind = type(module).__name__
        return f"{name} ({kind})" if name else kind

    def path(self, module: nn.Module) -> str:
        return self._modules.get(module, "")

    def knows(self, module: nn.Module) -> bool:
        return module in self._modules

    def parameter(self, parameter: torch.Tensor) -> str:
        return self._parameters.get(id(parameter), "")
