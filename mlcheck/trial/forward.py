"""A model's output on a batch, for the forms of a batch that need no step of the user's."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from mlcheck.trial.trial import EntryError

_TARGETS = ("target", "targets", "label", "labels", "y")


def forward(model: nn.Module, batch: Any) -> tuple[Any, Any]:
    """The model's output and the target of a batch, see `functions` for the forms a batch may have."""
    if isinstance(batch, Mapping):
        target = next((name for name in _TARGETS if name in batch), None)
        if target is None:
            raise EntryError(
                f"a batch is a dict without a target ({', '.join(_TARGETS)}): return a `train_step(batch)`"
            )
        inputs = {name: value for name, value in batch.items() if name != target}
        parameters = inspect.signature(model.forward).parameters.values()
        by_name = any(one.kind is one.VAR_KEYWORD for one in parameters) or {one.name for one in parameters} >= set(
            inputs
        )
        return (model(**inputs) if by_name else model(inputs)), batch[target]
    if isinstance(batch, list | tuple) and len(batch) > 1:
        *positional, target = batch
        return model(*positional), target
    raise EntryError(
        f"a batch is a {type(batch).__name__}, not a sequence of inputs and target or a dict: "
        "return a `train_step(batch)`"
    )
