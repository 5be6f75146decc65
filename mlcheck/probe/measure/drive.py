"""Turns the crank of the user's loop: batches from their loader, steps with known random numbers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import torch

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.trial.trial import Trial


def first_batches(trial: Trial, count: int) -> list[Any]:
    """The first batches of a fresh pass over the training data; fewer where there are fewer."""
    batches = list(islice(trial.train_batches(), count))
    if not batches:
        raise NotMeasured("the training data is empty")
    return batches


def evaluated_batch(trial: Trial) -> tuple[Callable[[Any], Any], Any]:
    """The evaluation step, and the first batch of a fresh pass over the validation data."""
    if trial.evaluate_step is None or trial.validation_batches is None:
        raise NotMeasured("the trial has no evaluation step of its own")
    for batch in trial.validation_batches():
        return trial.evaluate_step, batch
    raise NotMeasured("there is no validation data")


def repeated_batches(trial: Trial) -> Iterator[Any]:
    """Passes over the training data without end."""
    while True:
        empty = True
        for batch in trial.train_batches():
            empty = False
            yield batch
        if empty:
            raise NotMeasured("the training data is empty")


def length_of(loader: Any) -> int:
    """How many batches a loader has; 0 where it does not tell, as of iterable data, or there is none."""
    try:
        return len(loader)
    except (TypeError, NotImplementedError):
        return 0


def await_device(device: torch.device) -> None:
    """Until the device has done what is queued, as it runs behind Python's back; at once for the CPU."""
    if device.type != "cpu":
        torch.accelerator.synchronize(device)


class Clock:
    """Whether time is left."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def left(self) -> float:
        return max(0.0, self._end - time.monotonic())


@contextmanager
def exclusively_evaluating(models: Iterator[torch.nn.Module]) -> Iterator[None]:
    """All modules in evaluation mode within; each one's own mode afterwards."""
    modules = [module for model in models for module in model.modules()]
    before = [module.training for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, mode in zip(modules, before):
            module.training = mode


def inconclusive(reason: str) -> NotMeasured:
    return NotMeasured(reason, Outcome.INCONCLUSIVE)
