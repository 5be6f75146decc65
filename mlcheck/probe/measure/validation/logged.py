"""The metrics of one batch, by name: what its evaluation returns, and what a Lightning module logs in it or reducers
make of it."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from torch import Tensor

from mlcheck.probe.measure.tree import map_tensors
from mlcheck.trial.trial import Trial

_MODULES = ("lightning.pytorch.core.module", "pytorch_lightning.core.module")


def metrics_of(trial: Trial, batch: Any) -> Mapping[str, Any]:
    """The metrics of one validation batch: those that are returned, and one number each that is logged."""
    assert trial.evaluate_step is not None
    with logged() as told:
        returned = trial.evaluate_step(batch)
    return {**told, **returned}


def metrics_alone(trial: Trial, batch: Any) -> Mapping[str, Any]:
    """The same where the batch is all that is validated, with what the program's own reducers make of it.

    One of them may not know what to make of so few, and its metric is left out.
    """
    if trial.end_validation is None:
        return metrics_of(trial, batch)
    trial.end_validation()
    return {**metrics_of(trial, batch), **_finite(trial.end_validation())}


def numbers_of_all(trial: Trial, batches: Iterable[Any]) -> Iterator[dict[str, float]]:
    """The metrics of each batch that are one number, and beside them what reducers make of all these batches."""
    each = (numbers(metrics_of(trial, map_tensors(batch, Tensor.detach))) for batch in batches)
    if trial.end_validation is None:
        yield from each
        return
    trial.end_validation()
    plain = list(each)
    reduced = _finite(trial.end_validation())
    yield from ({**metrics, **reduced} for metrics in plain)


def _finite(metrics: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in numbers(metrics).items() if math.isfinite(value)}


def numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    found = {}
    for name, value in metrics.items():
        with suppress(TypeError, ValueError, RuntimeError):  # what is no one number
            found[str(name)] = float(value)
    return found


@contextmanager
def logged() -> Iterator[dict[str, Any]]:
    """While entered, fills a dict with what `LightningModule.log` and `log_dict` are given; log_dict calls log."""
    told: dict[str, Any] = {}
    classes = [module.LightningModule for name in _MODULES if (module := sys.modules.get(name)) is not None]
    originals = [kind.log for kind in classes]
    for kind, original in zip(classes, originals):
        kind.log = _hearing(original, told)
    try:
        yield told
    finally:
        for kind, original in zip(classes, originals):
            kind.log = original


def _hearing(original: Any, told: dict[str, Any]) -> Any:
    def log(self: Any, name: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        number = isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.numel() == 1)
        if number and not self.training:  # on its way to the evaluation the program may train
            told[name] = value.detach().clone() if isinstance(value, Tensor) else value
        return original(self, name, value, *args, **kwargs)

    return log
