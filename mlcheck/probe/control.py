"""Whether an error in a measurement is the program's own: its plain run over as many steps is the control.

A measurement holds weights still, zeroes inputs, gives the same batch again: where that ends a training early, the
program may fail at what comes after, and would never have without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.drive import Clock, repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.traceback import error_line, user_frame, user_traceback
from mlcheck.trial.trial import NotReached, RejectedConfig, Trial


class Control:
    """Counts how far a measurement drives a trial, and drives it as far untouched."""

    def __init__(self, trial: Trial, seed: int) -> None:
        self._trial, self._seed = trial, seed
        self._steps = self._evaluations = 0
        self._raised: Exception | None = None

    @contextmanager
    def counting(self) -> Iterator[None]:
        trial = self._trial
        train, evaluate = trial.train_step, trial.evaluate_step
        self._steps = self._evaluations = 0
        self._raised = None

        def train_step(batch: Any, index: int) -> Mapping[str, Any]:
            self._steps = max(self._steps, index + 1)
            return self._heard(lambda: train(batch, index))

        def evaluate_step(batch: Any) -> Mapping[str, Any]:
            self._evaluations += 1
            return self._heard(lambda: evaluate(batch) if evaluate else {})

        trial.train_step, trial.evaluate_step = train_step, evaluate_step if evaluate else None
        try:
            yield
        finally:
            trial.train_step, trial.evaluate_step = train, evaluate

    def explained(self, error: Exception, seconds: float) -> NotMeasured | None:
        """What to say instead where the program raised this and its plain run does not; None where it is to stand."""
        if self._raised is not error and user_frame(error.__traceback__) is None:
            return None
        if self._raises_by_itself(seconds):
            return None
        reason = f"changed for this probe, the program raised {error_line(error)}; as it is, it does not"
        return NotMeasured(reason, Outcome.INCONCLUSIVE, user_traceback(error))

    def _heard(self, call: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
        try:
            return call()
        except Exception as error:
            self._raised = error
            raise

    def _raises_by_itself(self, seconds: float) -> bool:
        clock = Clock(seconds)
        seed_all(self._seed)
        try:
            with restored(self._trial):
                self._drive(clock)
        except (NotReached, RejectedConfig, NotMeasured):
            return False
        except Exception:
            return True
        return False

    def _drive(self, clock: Clock) -> None:
        trial = self._trial
        for index, batch in enumerate(islice(repeated_batches(trial), self._steps)):
            trial.train_step(batch, index)
            if not clock.left():
                return
        if trial.evaluate_step and trial.validation_batches:
            for batch in islice(trial.validation_batches(), self._evaluations):
                trial.evaluate_step(batch)
                if not clock.left():
                    return
