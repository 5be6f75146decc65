"""A model's output and loss on a batch, for the forms of a batch that need no step of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from mlcheck.trial.ranks.over import inside
from mlcheck.trial.trial import EntryError

_TARGETS = ("target", "targets", "label", "labels", "y")
_SEED = 20


def forward(model: nn.Module, batch: Any) -> tuple[Any, Any]:
    """The model's output and the target of a batch, see `functions` for the forms a batch may have."""
    if isinstance(batch, Mapping):
        target = next((name for name in _TARGETS if name in batch), None)
        if target is None:
            raise EntryError(
                f"a batch is a dict without a target ({', '.join(_TARGETS)}): return a `train_step(batch)`"
            )
        inputs = {name: value for name, value in batch.items() if name != target}
        return _by_name(model, inputs), batch[target]
    if isinstance(batch, list | tuple) and len(batch) > 1:
        *positional, target = batch
        return model(*positional), target
    raise EntryError(
        f"a batch is a {type(batch).__name__}, not a sequence of inputs and target or a dict: "
        "return a `train_step(batch)`"
    )


def pull(output: Any) -> Tensor:
    """A number that depends on all of an output: its product with fixed random numbers.

    It stands for a loss where none is known: what gets no gradient from it takes no part in the output.
    """
    outputs = [tensor for tensor in _tensors(output) if tensor.is_floating_point()]
    if not outputs:
        raise EntryError("the model returns no tensor of floating point numbers: give a `loss`, or a `train_step`")
    generator = torch.Generator().manual_seed(_SEED)
    pulls = [torch.randn(tensor.shape, generator=generator).to(tensor) for tensor in outputs]
    return torch.stack([(tensor * pull).mean() for tensor, pull in zip(outputs, pulls)]).sum()


def loss_in(output: Any) -> Tensor | None:
    """The loss that a model itself computed: its output's `loss`, or an output of one number."""
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    for found in (loss, output):
        if isinstance(found, Tensor) and found.numel() == 1 and found.is_floating_point():
            return found.sum()
    return None


def whole(model: nn.Module, batch: Any) -> Any:
    """The output where a model takes a whole batch; the last part of a sequence is left out where it takes fewer."""
    if isinstance(batch, Mapping):
        return _by_name(model, dict(batch))
    if not isinstance(batch, list | tuple):
        return model(batch)
    if not _takes(model, len(batch)) and _takes(model, len(batch) - 1):
        batch = batch[:-1]
    return model(*batch)


def _by_name(model: nn.Module, inputs: dict[str, Any]) -> Any:
    parameters = inspect.signature(inside(model).forward).parameters.values()
    by_name = any(one.kind is one.VAR_KEYWORD for one in parameters) or {one.name for one in parameters} >= set(inputs)
    if by_name:
        return model(**inputs)
    known = {name: value for name, value in inputs.items() if name in {one.name for one in parameters}}
    left = set(inputs) - set(known)
    return model(**known) if known and left <= set(_TARGETS) else model(inputs)


def _takes(model: nn.Module, count: int) -> bool:
    try:
        inspect.signature(inside(model).forward).bind(*range(count))
    except TypeError:
        return False
    return True


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _tensors(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _tensors(inner)
