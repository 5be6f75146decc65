"""How many classes a program scores: what a model gives is an embedding where no loss chooses among its numbers."""

from __future__ import annotations

from contextlib import suppress

from mlcheck.probe.measure.data.examples import CLASS_LOSSES
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial


def scored_classes(trial: Trial) -> frozenset[int]:
    """Those that the losses of a training step choose from; none where the step fails, which is told elsewhere."""
    losses, batch = LossWatch(), first_batches(trial, 1)[0]
    with suppress(Exception), restored(trial), losses:
        seed_all(0)
        trial.train_step(copied(batch), 0)
    return class_counts(losses)


def class_counts(losses: LossWatch) -> frozenset[int]:
    calls = [call for call in losses.calls if call.kind in CLASS_LOSSES and call.input.ndim]
    return frozenset(call.input.shape[min(1, call.input.ndim - 1)] for call in calls)
