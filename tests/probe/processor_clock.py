"""What an experiment may take, told by the processor: no busy machine cuts it short and changes its verdict."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mlcheck.probe.measure.drive import Clock
from mlcheck.probe.measure.loss import added_term, lower_bound
from mlcheck.probe.measure.model import averaged_copy, parameters
from mlcheck.probe.measure.training import (
    decay_trials,
    memorising,
    planned_rates,
    rate_trials,
    restarts,
    resumed,
    short_run,
    training_steps,
)
from mlcheck.probe.measure.validation import predictions

_EXPERIMENTS = (
    *(added_term, averaged_copy, decay_trials, lower_bound, memorising, parameters, planned_rates),
    *(predictions, rate_trials, restarts, resumed, short_run, training_steps),
)


class ProcessorClock(Clock):
    def __init__(self, seconds: float) -> None:
        self._end = time.process_time() + seconds

    def left(self) -> float:
        return max(0.0, self._end - time.process_time())


@contextmanager
def by_the_processor() -> Iterator[None]:
    """Within, experiments in this process end by the work they do."""
    with pytest.MonkeyPatch.context() as patch:
        for experiment in _EXPERIMENTS:
            patch.setattr(experiment, "Clock", ProcessorClock)
        yield
