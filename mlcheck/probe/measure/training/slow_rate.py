"""Whether the user's learning rate hardly moves the model, where a much larger one makes it learn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from mlcheck.probe.measure.training.rate_trials import RateTrial, RateTrials

LITTLE = 0.05
MUCH = 0.02
FAR = 100.0
MOVED = 0.01  # an update of a thousandth of its weight is usual, and forty of them would be four times this
_FEW = 9


@dataclass(frozen=True, slots=True)
class SlowRate:
    """`gain` and `best_gain` are how much lower the loss gets than with next to no step at all, `best` with what."""

    mine: RateTrial
    best: RateTrial
    gain: float
    best_gain: float

    @classmethod
    def of(cls, seen: RateTrials) -> Self | None:
        """None where no larger rate is left to compare with: all of them diverge."""
        mine = seen.of(1.0)
        third = max(3, len(mine.losses) // 3)
        still = min(seen.lower, key=lambda trial: trial.factor, default=mine).tail(third)
        higher = [trial for trial in seen.higher if len(trial.losses) == len(mine.losses)]
        best = min(higher, key=lambda trial: trial.tail(third), default=None)
        return cls(mine, best, still - mine.tail(third), still - best.tail(third)) if best else None

    @property
    def hardly_moves(self) -> bool:
        """Many sound runs start on a plateau that ten times their rate leaves sooner: it takes a hundred times it."""
        if self.mine.moved > MOVED or self.best.factor < FAR:
            return False
        return self.best_gain >= MUCH * abs(self.mine.losses[0]) and self.gain <= LITTLE * self.best_gain


def is_judged(mine: RateTrial) -> bool:
    return not mine.diverged and len(mine.losses) >= _FEW
