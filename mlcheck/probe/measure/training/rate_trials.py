"""The user's own steps over the same batches from the same start, with other learning rates."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.plural import plural
from mlcheck.probe.measure.drive import Clock, inconclusive, repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.simplified import learning_rate, nominal_rate, with_rates
from mlcheck.probe.measure.training.gradients import GradientWatch, single_loss
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.traceback import error_line
from mlcheck.trial.trial import Trial

FACTORS = (1.0, 0.1, 0.01, 10.0, 100.0)
STEPS = 40
UNMOVED = 0.95
HIGHEST = 1.0
FEW_STEPS = 15
SECONDS = 8.0
_ASKS_FOR_NUMBERS = re.compile(r"\b(nan|inf|infinite|infinity|finite)\b|NaN", re.IGNORECASE)


FAR = 1e3


@dataclass(frozen=True, slots=True)
class RateTrial:
    """The loss at each step with every learning rate multiplied by `factor`; it ended early where it diverged.

    `error` is what the program raised at another rate than its own, with a loss that was still small. `moved` is how
    far the weights that changed went, all together, as a share of their length at the start, and `asked` the largest
    rate that the loop itself would have set in place of the one that was held; 0 if it set none.
    """

    factor: float
    losses: tuple[float, ...]
    diverged: bool
    error: str = ""
    moved: float = 0.0
    asked: float = 0.0

    @property
    def plunged(self) -> bool:
        """Whether it fell below zero a thousand times as far as it began above, or more."""
        return min(self.losses, default=0.0) < -FAR * max(abs(self.losses[0]), 1e-3)

    def tail(self, length: int) -> float:
        """The mean of the last `length` losses; infinite where it diverged."""
        return math.inf if self.diverged else sum(self.losses[-length:]) / length


@dataclass(frozen=True, slots=True)
class RateTrials:
    """Runs of equal length over the same batches with the same random numbers, schedules held, `rate` the user's.

    `warms_up` says that the program begins below the rate that is held. A hundredth that diverges is followed by a
    ten-thousandth, a hundred times the rate that moves nothing by ten thousand times, and then by a million times.
    """

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 90

    rate: float
    steps: int
    trials: tuple[RateTrial, ...]
    warms_up: bool

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if "optimizer" in trial.supplied:
            raise NotMeasured("the optimizer is mlcheck's own: your program gives none")
        rate = nominal_rate(trial)
        if rate <= 0 or not trial.optimizers:
            raise NotMeasured("no optimizer has a learning rate")
        if not trial.repeats_batches:
            raise inconclusive("the program draws its batches itself: no two rates can be tried on the same ones")
        clock = Clock(min(SECONDS, seconds / 4))
        batches = [copied(batch) for batch in islice(repeated_batches(trial), STEPS)]
        first = _run(trial, batches, 1.0, clock.left() / len(FACTORS))
        steps = len(first.losses)
        if steps < FEW_STEPS and not first.diverged:
            raise inconclusive(f"there was time for {plural(steps, 'step')} with a learning rate only")
        compared = batches if first.diverged else batches[:steps]
        runs = [first, *(_run(trial, compared, factor, math.inf) for factor in FACTORS[1:])]
        if runs[FACTORS.index(0.01)].diverged:
            runs.append(_run(trial, compared, 1e-4, math.inf))
        for factor in (1e4, 1e6):
            unmoved = not runs[-1].diverged and runs[-1].losses[-1] > UNMOVED * first.losses[0]
            if unmoved and runs[-1].factor == factor / 100 and (factor == 1e4 or factor * rate <= HIGHEST):
                runs.append(_run(trial, compared, factor, math.inf))
        return cls(rate, steps, tuple(runs), warms_up=learning_rate(trial) < rate)

    def of(self, factor: float) -> RateTrial:
        return next(trial for trial in self.trials if trial.factor == factor)

    @property
    def raised(self) -> str:
        """What the program raised at another rate, where nothing says that the rate is too high; empty if nothing."""
        found = next((trial for trial in self.trials if trial.error), None)
        return f"at {self.rate * found.factor:g} the program raised {found.error}" if found else ""

    @property
    def lower(self) -> list[RateTrial]:
        return [trial for trial in self.trials if trial.factor < 1 and not trial.diverged]

    @property
    def higher(self) -> list[RateTrial]:
        return [trial for trial in self.trials if trial.factor > 1 and not trial.diverged]


def _run(trial: Trial, batches: list[Any], factor: float, seconds: float) -> RateTrial:
    clock = Clock(seconds)
    losses: list[float] = []
    diverged, raised = False, ""
    seed_all(0)
    with restored(trial), with_rates(trial, factor) as asked:
        weights = [(weight, weight.detach().clone()) for weight in _weights(trial)]
        for index, batch in enumerate(batches):
            watch = GradientWatch([])
            try:
                with watch:
                    trial.train_step(copied(batch), index)
            except Exception as error:
                if factor == 1.0:
                    raise
                diverged = True
                raised = "" if _exploded(trial, losses, error) else error_line(error)
                break
            losses.append(single_loss(watch, trial.optimizers.values()))
            plunged = losses[-1] < -FAR * max(abs(losses[0]), 1e-3)
            diverged = not math.isfinite(losses[-1]) or losses[-1] > FAR * max(abs(losses[0]), 1e-3)
            if plunged or diverged or not clock.left():
                break
        moved = _moved(weights)
    return RateTrial(factor, tuple(losses), diverged, raised, moved, max(asked, default=0.0))


def _weights(trial: Trial) -> list[Tensor]:
    groups = [group for optimizer in trial.optimizers.values() for group in optimizer.param_groups]
    return [weight for group in groups for weight in group["params"]]


@torch.no_grad()
def _moved(weights: list[tuple[Tensor, Tensor]]) -> float:
    went = math.hypot(*(float(torch.linalg.vector_norm(now - then)) for now, then in weights))
    length = math.hypot(*(float(torch.linalg.vector_norm(then[now != then])) for now, then in weights))
    return went / length if length > 0 else went


def _exploded(trial: Trial, losses: list[float], error: Exception) -> bool:
    """Whether the rate is what made the program raise: weights or loss grew, or it asked for finite numbers."""
    if _ASKS_FOR_NUMBERS.search(str(error)) or (losses and abs(losses[-1]) > 2 * max(abs(losses[0]), 1e-3)):
        return True
    parameters = (parameter for model in trial.models.values() for parameter in model.parameters())
    return not all(bool(torch.isfinite(parameter).all()) for parameter in parameters)
