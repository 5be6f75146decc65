"""What an evaluation returns, and what a Lightning module logs in it: the metrics of one batch, by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from mlcheck.trial.trial import Trial

_MODULES = ("lightning.pytorch.core.module", "pytorch_lightning.core.module")


def metrics_of(trial: Trial, batch: Any) -> Mapping[str, Any]:
    """The metrics of one validation batch: those that are returned, and one number each that is logged."""
    assert trial.evaluate_step is not None
    with logged() as told:
        returned = trial.evaluate_step(batch)
    return {**told, **returned}


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
