"""A short run of a trial that waits to be driven: two epochs, cut short, and an evaluation after each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import distributed

from mlcheck.trial.trial import Trial

_EPOCHS = 2
_EVALUATED = 2


def drive(trial: Trial) -> None:
    """The watch over the loaders cuts the epochs short."""
    index = 0
    for _ in range(_EPOCHS):
        for batch in _on_all_ranks(trial.train_batches()):
            trial.train_step(batch, index)
            index += 1
        if trial.evaluate_step is None or trial.validation_batches is None:
            continue
        for number, batch in enumerate(_on_all_ranks(trial.validation_batches())):
            if number == _EVALUATED:
                break
            trial.evaluate_step(batch)


def _on_all_ranks(batches: Iterator[Any]) -> Iterator[Any]:
    """As long as every rank has a batch, as a framework sees to it."""
    while True:
        batch = next(batches, None)
        have: list[bool] = [False] * distributed.get_world_size()
        distributed.all_gather_object(have, batch is not None)
        if not all(have):
            return
        yield batch
