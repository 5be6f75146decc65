"""Dropout and batch statistics kept off, whoever calls `train()`: what is left is the same computation every time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from mlcheck.trial.trial import Trial

_KINDS: tuple[Any, ...] = (_DropoutNd, _BatchNorm, nn.RNNBase)


@contextmanager
def still(trial: Trial) -> Iterator[None]:
    """Within, modules that draw or that normalise by their batch are in evaluation mode."""
    before = [kind.__dict__.get("train") for kind in _KINDS]
    modules = [m for model in trial.models.values() for m in model.modules() if isinstance(m, _KINDS)]
    modes = [module.training for module in modules]
    for kind in _KINDS:
        kind.train = lambda module, _mode=True: nn.Module.train(module, False)
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for kind, own in zip(_KINDS, before):
            if own is None:
                del kind.train
            else:
                kind.train = own
        for module, mode in zip(modules, modes):
            module.training = mode
