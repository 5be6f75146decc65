"""The metric that a search goes by, on a few training samples, before they are memorised and after."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor

from mlcheck.probe.measure.drive import Clock, inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.simplified import unregularised
from mlcheck.probe.measure.training.gradients import GradientWatch, single_loss
from mlcheck.probe.measure.training.small_batch import small_batch
from mlcheck.probe.measure.tree import map_tensors
from mlcheck.probe.measure.validation.logged import metrics_alone
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import NotReached, Trial

_STEPS = 100
_SECONDS = 2.0
_LEARNT = 0.1
_SEED = 0


@dataclass(frozen=True, slots=True)
class MemorisedMetric:
    """`first` and `last` are the losses of the training steps, `before` and `after` the metric of the same samples."""

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 181

    metric: str
    before: float
    after: float
    first: float
    last: float
    samples: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if not trial.searched_metric or trial.evaluate_step is None:
            raise NotMeasured("no search goes by a metric of the evaluation")
        batch, samples = small_batch(trial)
        with restored(trial), unregularised(trial):
            before = _metric(trial, batch)
            losses = _learn(trial, batch, Clock(min(_SECONDS, seconds / 20)))
            after = _metric(trial, batch)
        if losses[0] <= 0 or not 0 <= losses[-1] <= _LEARNT * losses[0]:
            raise inconclusive(f"{samples} samples were not overfitted in {len(losses)} steps")
        return cls(trial.searched_metric, before, after, losses[0], losses[-1], samples)


def _metric(trial: Trial, batch: Any) -> float:
    """Evaluation may take another kind of batch than training does, and then there is nothing to compare."""
    seed_all(_SEED)
    try:
        found = float(metrics_alone(trial, map_tensors(batch, Tensor.clone))[trial.searched_metric])
    except NotReached:
        raise
    except Exception as error:
        raise NotMeasured("the evaluation does not take batches of the training data") from error
    if not math.isfinite(found):
        raise NotMeasured(f"{trial.searched_metric} is no number")
    return found


def _learn(trial: Trial, batch: Any, clock: Clock) -> list[float]:
    losses: list[float] = []
    while len(losses) < _STEPS and clock.left():
        seed_all(_SEED)
        with GradientWatch([]) as watch:
            trial.train_step(map_tensors(batch, Tensor.clone), len(losses))
        losses.append(single_loss(watch, trial.optimizers.values()))
        if losses[-1] <= _LEARNT / 10 * losses[0]:
            break
    return losses
