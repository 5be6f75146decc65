"""The modes of torch, numpy and Python that a training step may change for the whole process."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from mlcheck.trial.generators import ValueCell, global_cells


def process_cells() -> Iterator[ValueCell]:
    """The whole process's random generators and modes."""
    yield from global_cells()
    yield from mode_cells()


def mode_cells() -> Iterator[ValueCell]:
    """A cell for each; what is as it was is not touched."""
    yield ValueCell("grad mode", torch.is_grad_enabled, torch.set_grad_enabled)
    yield ValueCell("the default dtype", torch.get_default_dtype, torch.set_default_dtype)
    yield ValueCell("anomaly detection", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly)
    yield ValueCell("deterministic algorithms", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode)
    yield ValueCell("torch's threads", torch.get_num_threads, torch.set_num_threads)
    yield ValueCell("matmul precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision)
    for name in ("benchmark", "deterministic", "enabled"):
        yield _attribute(f"cudnn's `{name}`", torch.backends.cudnn, name)
    yield ValueCell("numpy's handling of errors", np.geterr, lambda modes: np.seterr(**modes))
    yield ValueCell("the working directory", os.getcwd, os.chdir)
    yield ValueCell("the environment", lambda: dict(os.environ), _set_environment)
    yield ValueCell("the filters of warnings", lambda: tuple(warnings.filters), _set_filters)


@contextmanager
def deterministic() -> Iterator[None]:
    """PyTorch's deterministic algorithms meanwhile, where there are any; where there are none, it warns.

    (https://docs.pytorch.org/docs/stable/generated/torch.use_deterministic_algorithms.html)
    """
    strict, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    tries = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(strict, warn_only=warns)
        torch.backends.cudnn.benchmark = tries


def _attribute(name: str, owner: Any, attribute: str) -> ValueCell:
    return ValueCell(name, lambda: getattr(owner, attribute), lambda value: setattr(owner, attribute, value))


def _set_environment(names: dict[str, str]) -> None:
    for name in os.environ.keys() - names.keys():
        del os.environ[name]
    os.environ.update(names)


def _set_filters(filters: tuple[Any, ...]) -> None:
    warnings.filters[:] = filters  # type: ignore[index]
    warnings._filters_mutated()  # type: ignore[attr-defined]
