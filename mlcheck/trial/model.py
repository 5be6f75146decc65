"""Makes parts of a bare `nn.Module`, a class or an instance, and of what its file defines beside it.

- `example_batch`: a batch, or a function that makes one. Without it, Lightning's `example_input_array` or
  Transformers' `dummy_inputs` of the model.
- `loss`: called with (output, target), where the last part of a batch, or its `target`, `label` ..., is a target.

A class is constructed with the hyperparameters of its arguments' names.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

from torch import nn

from mlcheck.trial.config import Hyperparameters
from mlcheck.trial.construct import arguments_of
from mlcheck.trial.parts import Parts
from mlcheck.trial.trial import EntryError

_OWN_EXAMPLES = ("example_input_array", "dummy_inputs")


def parts_of(target: type[nn.Module] | nn.Module, entry: str, beside: ModuleType, values: Hyperparameters) -> Parts:
    """Raises EntryError where there is nothing to run the model on."""
    model = target(**arguments_of(target, entry, values)) if isinstance(target, type) else target
    return completed(model, entry, beside)


def completed(model: nn.Module, entry: str, beside: ModuleType) -> Parts:
    """A model with the example batch and the loss that its file defines."""
    example = getattr(beside, "example_batch", None)
    if example is None:
        example = next((found for name in _OWN_EXAMPLES if (found := getattr(model, name, None)) is not None), None)
    elif callable(example):
        example = example()
    if example is None:
        raise EntryError(
            f"`{entry}` is a model alone: define `example_batch` beside it, a batch or a function that makes one "
            "(and `loss`, to be called with output and target), or name a function that returns model, optimizer, "
            "loss and train_loader"
        )
    loss: Any = getattr(beside, "loss", None)
    return Parts(model=model, loss=loss if callable(loss) else None, example_batch=example)
