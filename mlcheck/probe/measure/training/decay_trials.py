"""The user's own steps over the same batches from the same start, with the optimizer's weight decay and without.

A decoupled decay is multiplied by the learning rate: a schedule that warms up is held at the rate that it leads to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

from mlcheck.core.plural import plural
from mlcheck.probe.measure.drive import Clock, inconclusive, repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.simplified import nominal_rate, with_rates, without_decay
from mlcheck.probe.measure.training.gradients import GradientWatch, loss_of_step
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_STEPS = 300
_FEW = 20
_SECONDS = 6.0
_COMMON = 0.1


@dataclass(frozen=True, slots=True)
class DecayTrials:
    """The losses of each step `kept` with the weight decay (`decay`, the largest) and `freed` of it, at this rate."""

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 94

    decay: float
    rate: float
    kept: tuple[float, ...]
    freed: tuple[float, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        groups = [group for optimizer in trial.optimizers.values() for group in optimizer.param_groups]
        decay = max((float(group.get("weight_decay") or 0.0) for group in groups), default=0.0)
        if decay <= _COMMON or "optimizer" in trial.supplied:
            raise NotMeasured(f"no optimizer has a weight decay above {_COMMON:g}, which is common")
        if len(trial.optimizers) > 1 or not trial.repeats_batches:
            raise inconclusive("no single loss over the same batches can be compared")
        batches = [copied(batch) for batch in islice(repeated_batches(trial), _STEPS)]
        kept = _run(trial, batches, Clock(min(_SECONDS, seconds / 8)))
        if len(kept) < _FEW:
            raise inconclusive(f"there was time for {plural(len(kept), 'step')} only")
        with without_decay(trial):
            freed = _run(trial, batches[: len(kept)], Clock(math.inf))
        return cls(decay, nominal_rate(trial), kept, freed)


def _run(trial: Trial, batches: list[Any], clock: Clock) -> tuple[float, ...]:
    losses: list[float] = []
    seed_all(0)
    with restored(trial), with_rates(trial, 1.0):
        for index, batch in enumerate(batches):
            watch = GradientWatch([])
            with watch:
                trial.train_step(copied(batch), index)
            losses.append(loss_of_step(watch.backwards))
            if not math.isfinite(losses[-1]) or not clock.left():
                break
    return tuple(losses)
