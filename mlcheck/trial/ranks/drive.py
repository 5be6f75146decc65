"""A short run of a trial that waits to be driven: two epochs, cut short, and an evaluation after each."""

from __future__ import annotations

from mlcheck.trial.trial import Trial

_EPOCHS = 2
_EVALUATED = 2


def drive(trial: Trial) -> None:
    """The watch over the loaders cuts the epochs short."""
    index = 0
    for _ in range(_EPOCHS):
        for batch in trial.train_batches():
            trial.train_step(batch, index)
            index += 1
        if trial.evaluate_step is None or trial.validation_batches is None:
            continue
        for number, batch in enumerate(trial.validation_batches()):
            if number == _EVALUATED:
                break
            trial.evaluate_step(batch)
