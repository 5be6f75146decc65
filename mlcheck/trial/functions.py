"""Makes a `Trial` of a plain function that builds model, optimizer, loss and loaders.

The function is called once, without positional arguments; hyperparameters of the config are passed to the
arguments of the same name. It returns

- a tuple `(model, optimizer, loss, train_loader)` or `(model, optimizer, loss, train_loader, validation_loader)`, or
- a dict, or an object with attributes (dataclass, namedtuple, module), of `model`, `optimizer`, `loss`,
  `train_loader` and, if there are any, `validation_loader`, `scheduler`, `train_step`, `evaluate_step`.

`model`, `optimizer` and `scheduler` may be dicts of several by name. `loss` is called with (output, target).

A batch is a sequence whose last item is the target and whose others are the model's inputs, or a dict: its
`target`, `targets`, `label`, `labels` or `y` is the target, and the rest goes to the model by name where
`forward` has those names, else as one dict. For any other batch return the two steps yourself:

- `train_step(batch)` does forward, zero_grad, backward and step as the user's loop does, and returns a dict of
  metrics, a loss or nothing; the model is in train mode before the first. With it, `loss` may be left out.
- `evaluate_step(batch)` returns a dict of metrics, a loss or nothing. The modes and grad mode are the user's own.

Without `train_step` mlcheck supplies the loop, and nothing is said about the user's.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from mlcheck.trial.config import Hyperparameters
from mlcheck.trial.determined.data import to_device
from mlcheck.trial.forward import forward
from mlcheck.trial.trial import EntryError, Trial

_TUPLE = ("model", "optimizer", "loss", "train_loader", "validation_loader")
_NAMES = (*_TUPLE, "scheduler", "train_step", "evaluate_step")


@dataclass(frozen=True)
class _Parts:
    """What the user's function returned, checked; its loaders still to be iterated."""

    models: dict[str, nn.Module]
    optimizers: dict[str, Optimizer]
    schedulers: dict[str, Any]
    loss: Callable[[Any, Any], torch.Tensor] | None
    train_loader: Any
    validation_loader: Any
    train_step: Callable[[Any], Any] | None
    evaluate_step: Callable[[Any], Any] | None


def build(
    function: FunctionType, entry: str, place: tuple[str, int], values: Hyperparameters, device: torch.device
) -> Trial:
    """Call the user's function and wrap what it returns. Raises EntryError where either does not fit."""
    returned = function(**_arguments(function, entry, values))
    parts = _checked(returned, entry)
    for model in parts.models.values():
        model.to(device)
    steps = _Steps(parts, device)
    return Trial(
        name=function.__name__,
        models=parts.models,
        optimizers=parts.optimizers,
        schedulers=parts.schedulers,
        train_step=steps.train,
        train_batches=lambda: steps.batches(parts.train_loader),
        evaluate_step=steps.evaluate if parts.evaluate_step or parts.loss else None,
        validation_batches=(lambda: steps.batches(parts.validation_loader))
        if parts.validation_loader is not None
        else None,
        loss=steps.loss if parts.loss and len(parts.models) == 1 else None,
        owns_loop=parts.train_step is not None,
        entry=place,
        device=device,
        objects=(returned, parts.train_loader, parts.validation_loader, parts.train_step, parts.evaluate_step),
        loaders={"training": parts.train_loader, "validation": parts.validation_loader},
        progress=steps,
    )


def _arguments(function: FunctionType, entry: str, values: Hyperparameters) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(values)
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY and parameter.default is parameter.empty:
            raise EntryError(f"`{entry}` requires `{parameter.name}` by position: it is called with arguments by name")
        needed = parameter.default is parameter.empty and parameter.kind is not parameter.VAR_POSITIONAL
        if needed and parameter.name not in values:
            raise EntryError(f"`{entry}` requires `{parameter.name}`{values.how_to_add(parameter.name)}")
    return {parameter.name: values[parameter.name] for parameter in parameters if parameter.name in values}


def _checked(returned: Any, entry: str) -> _Parts:
    fields = _fields(returned, entry)
    own_step = fields.get("train_step")
    needed = [name for name in ("model", "optimizer", "train_loader") if fields.get(name) is None]
    if own_step is None and fields.get("loss") is None:
        needed.append("loss")
    if needed:
        raise EntryError(f"what `{entry}` returns has no {', '.join(f'`{name}`' for name in needed)}: {_EXPECTED}")
    for name in ("loss", "train_step", "evaluate_step"):
        if fields.get(name) is not None and not callable(fields[name]):
            raise EntryError(f"`{name}` returned by `{entry}` must be callable, not {type(fields[name]).__name__}")
    for name in ("train_loader", "validation_loader"):
        if fields.get(name) is not None and not hasattr(fields[name], "__iter__"):
            raise EntryError(
                f"`{name}` returned by `{entry}` cannot be iterated: it is a {type(fields[name]).__name__}"
            )
        if isinstance(fields.get(name), Iterator):
            raise EntryError(
                f"`{name}` returned by `{entry}` can be iterated only once: return the loader, not an iterator over it"
            )
    parts = _Parts(
        models=_named(fields["model"], "model", nn.Module, entry),
        optimizers=_named(fields["optimizer"], "optimizer", Optimizer, entry),
        schedulers=_named(fields["scheduler"], "scheduler", object, entry) if fields.get("scheduler") else {},
        loss=fields.get("loss"),
        train_loader=fields["train_loader"],
        validation_loader=fields.get("validation_loader"),
        train_step=own_step,
        evaluate_step=fields.get("evaluate_step"),
    )
    if own_step is None and (len(parts.models) > 1 or len(parts.optimizers) > 1):
        raise EntryError(f"`{entry}` returns several models or optimizers: return a `train_step(batch)` that uses them")
    return parts


_EXPECTED = (
    "return a dict (or object) of model, optimizer, loss and train_loader, or a tuple of them in this order, "
    "with an optional validation_loader"
)


def _fields(returned: Any, entry: str) -> dict[str, Any]:
    if isinstance(returned, Mapping):
        return {name: returned[name] for name in _NAMES if name in returned}
    if isinstance(returned, tuple) and not hasattr(returned, "_fields"):
        if len(returned) not in (4, 5):
            raise EntryError(f"`{entry}` returns a tuple of {len(returned)}: {_EXPECTED}")
        return dict(zip(_TUPLE, returned, strict=False))
    if isinstance(returned, nn.Module):
        raise EntryError(f"`{entry}` returns a model alone: {_EXPECTED}")
    fields = {name: getattr(returned, name) for name in _NAMES if hasattr(returned, name)}
    if not fields:
        raise EntryError(f"`{entry}` returns {_article(returned)}: {_EXPECTED}")
    return fields


def _named(value: Any, name: str, kind: type, entry: str) -> dict[str, Any]:
    several = dict(value) if isinstance(value, Mapping) else {name: value}
    for key, one in several.items():
        if not isinstance(one, kind):
            raise EntryError(
                f"`{key}` returned by `{entry}` must be a {kind.__module__}.{kind.__qualname__}, not {_article(one)}"
            )
    return several


def _article(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


class _Steps:
    """Training and evaluation of one batch, by the user's own steps or by the plainest loop there is."""

    def __init__(self, parts: _Parts, device: torch.device) -> None:
        self._parts = parts
        self._device = device
        self._training = False

    def batches(self, loader: Any) -> Iterator[Any]:
        for batch in loader:
            yield to_device(batch, self._device)

    def loss(self, batch: Any) -> torch.Tensor:
        assert self._parts.loss is not None
        (model,) = self._parts.models.values()
        output, target = forward(model, batch)
        return self._parts.loss(output, target)

    def train(self, batch: Any, _index: int) -> Mapping[str, Any]:
        own = self._parts.train_step
        if own is not None:
            self._mode(True)
            return _metrics(own(batch), "train_step")
        (optimizer,) = self._parts.optimizers.values()
        for model in self._parts.models.values():
            model.train()
        optimizer.zero_grad()
        loss = self.loss(batch)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return {"loss": loss.detach()}

    def evaluate(self, batch: Any) -> Mapping[str, Any]:
        own = self._parts.evaluate_step
        if own is not None:
            self._training = False
            return _metrics(own(batch), "evaluate_step")
        for model in self._parts.models.values():
            model.eval()
        self._training = False
        with torch.no_grad():
            return {"loss": self.loss(batch)}

    def snapshot(self) -> object:
        return self._training

    def restore(self, state: object) -> None:
        self._training = bool(state)

    def close(self) -> None:
        """Nothing is open between steps."""

    def _mode(self, training: bool) -> None:
        """Train mode before the first of a row of the user's own steps, never between them."""
        if not self._training:
            for model in self._parts.models.values():
                model.train(training)
        self._training = training


def _metrics(returned: Any, step: str) -> Mapping[str, Any]:
    if returned is None:
        return {}
    if isinstance(returned, Mapping):
        return returned
    if isinstance(returned, torch.Tensor | float | int):
        return {"loss": returned}
    raise EntryError(f"{step}() must return a dict of metrics, a loss or nothing, not {_article(returned)}")
