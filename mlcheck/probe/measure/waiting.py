"""How long a batch takes to load and how long a step takes on it, and where the loading spends its time.

Loading and stepping are timed apart, so that neither hides behind the other; what a step would wait for data is
their difference where workers load ahead, and all of the loading where there are none.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from statistics import quantiles
from types import FrameType
from typing import Any, ClassVar, Self

import torch

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import as_given, is_users
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import Trial

_BATCHES = 14
_LEAST = 6
_STEPS = 8
_PAUSE_S = 0.002
_SEED = 2


@dataclass(frozen=True, slots=True)
class Waiting:
    """Seconds for a batch and for a step, as (lower quartile, median, upper quartile).

    `computing` is the share of loading in which this process used the CPU; `spots` are the user's lines that
    loading stood on most, with their shares, where it runs in this process.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 90

    load: tuple[float, float, float]
    step: tuple[float, float, float]
    batches: int
    workers: int
    computing: float
    spots: tuple[tuple[Location, float], ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if not trial.repeats_batches:
            raise NotMeasured("the program draws its batches itself, between its own steps")
        seed_all(_SEED)
        loads, batch, computing, spots = _loading(trial, Clock(min(seconds / 3, 8.0)))
        if len(loads) < _LEAST:
            raise NotMeasured(f"{len(loads) + 1} batches are too few to time the loader")
        steps = _stepping(trial, batch, Clock(min(seconds / 3, 8.0)))
        if len(steps) < 2:
            raise inconclusive("a single step takes longer than the time limit leaves")
        loader = trial.loaders.get("training")
        workers = int(getattr(loader, "num_workers", 0) or 0)
        return cls(_quartiles(loads), _quartiles(steps), len(loads), workers, computing, spots)


def _loading(trial: Trial, clock: Clock) -> tuple[list[float], Any, float, tuple[tuple[Location, float], ...]]:
    """Times of the batches but the first, which pays for the start of the workers; the last batch; where it was."""
    passes = trial.train_batches()
    batch = next(passes, None)
    if batch is None:
        raise NotMeasured("the training data is empty")
    times: list[float] = []
    used, begun = time.process_time(), time.perf_counter()
    with _sampled() as lines:
        while len(times) < _BATCHES and clock.left():
            start = time.perf_counter()
            found = next(passes, None)
            if found is None:
                break
            times.append(time.perf_counter() - start)
            batch = found
    computing = (time.process_time() - used) / max(time.perf_counter() - begun, 1e-9)
    seen = sum(lines.values())
    return times, batch, computing, tuple((place, count / seen) for place, count in lines.most_common(3))


def _stepping(trial: Trial, batch: Any, clock: Clock) -> list[float]:
    """Times of steps on one batch that is there already; the first, which allocates, is left out."""
    times: list[float] = []
    for index in range(_STEPS):
        again = copied(batch)
        _synchronize(trial)
        start = time.perf_counter()
        trial.train_step(again, index)
        _synchronize(trial)
        if index:
            times.append(time.perf_counter() - start)
        if not clock.left():
            break
    return times


def _synchronize(trial: Trial) -> None:
    if trial.device.type == "cuda":
        torch.cuda.synchronize(trial.device)


def _quartiles(times: list[float]) -> tuple[float, float, float]:
    low, middle, high = quantiles(times, n=4, method="inclusive")
    return low, middle, high


@contextmanager
def _sampled() -> Iterator[Counter[Location]]:
    """Look from another thread, every few milliseconds, at which of the user's lines this one stands on."""
    lines: Counter[Location] = Counter()
    watched, stop = threading.get_ident(), threading.Event()

    def look() -> None:
        while not stop.wait(_PAUSE_S):
            place = _users_line(sys._current_frames().get(watched))
            if place:
                lines[place] += 1

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield lines
    finally:
        stop.set()
        thread.join()


def _users_line(frame: FrameType | None) -> Location | None:
    while frame is not None:
        code = frame.f_code
        if is_users(code.co_filename):
            return Location(as_given(code.co_filename), frame.f_lineno, symbol=code.co_qualname)
        frame = frame.f_back
    return None
