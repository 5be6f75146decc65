"""What the harness makes of the metrics a trial returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from mlcheck.trial.determined.api import InvalidExperimentException
from mlcheck.trial.determined.reducers import Reducer
from mlcheck.trial.trial import EntryError


def as_arrays(metrics: Any, method: str, *, detach: bool) -> dict[str, Any]:
    """The metrics with tensors turned into numpy arrays, in the dict the trial returned, as the harness does."""
    if not isinstance(metrics, dict):
        one_tensor = " or one tensor" if detach else ""
        raise EntryError(f"{method}() must return a dict of metrics{one_tensor}, not {type(metrics).__name__}")
    for name, value in metrics.items():
        if isinstance(value, torch.Tensor):
            metrics[name] = (value.detach() if detach else value).cpu().numpy()
    return metrics


def averages_of(metrics: list[dict[str, Any]]) -> dict[str, Any]:
    """The mean of each metric over the batches; None where the values have no mean."""
    averages: dict[str, Any] = {}
    for name in metrics[0] if metrics else {}:
        try:
            averages[name] = np.mean(np.array([one[name] for one in metrics])).item()
        except (KeyError, TypeError, ValueError):
            averages[name] = None
    return averages


def reduced(outputs: Sequence[dict[str, Any]], reducer: Any) -> dict[str, Any]:
    """The metrics of a validation, by one reducer for all or one for each."""
    names = list(outputs[0]) if outputs else []
    by_name = reducer if isinstance(reducer, dict) else dict.fromkeys(names, reducer)
    if set(by_name) != set(names) or not all(isinstance(one, Reducer) for one in by_name.values()):
        raise InvalidExperimentException(
            f"evaluation_reducer() must return one determined.pytorch.Reducer, or one for each of {names}"
        )
    return {name: by_name[name].reduce([output[name] for output in outputs]) for name in names}
