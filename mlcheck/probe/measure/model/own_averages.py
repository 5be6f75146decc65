"""Weights that a training step averages with themselves: what should be their copy is the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.lost_averages import FEW, Averages
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class OwnAverages:
    """How many weights that an optimizer trains are added, both times without a gradient, to themselves at `place`."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 3

    weights: int
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        groups = [group for each in trial.optimizers.values() for group in each.param_groups]
        trained = [weight for group in groups for weight in group["params"] if weight.numel() > 1]
        with Averages((), trained) as watch:
            trial.train_step(copied(first_batches(trial, 1)[0]), 0)
        if len(watch.of_itself) < max(FEW, len(trained) // 2):
            raise NotMeasured("a step averages no weights with themselves")
        return cls(len(watch.of_itself), next(iter(watch.of_itself.values())))
