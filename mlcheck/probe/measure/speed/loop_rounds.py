"""The loop as it is, its batches alone, and its steps alone, timed in turns, so that what changes meets all three."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from multiprocessing import active_children
from typing import Any, Self

import torch

from mlcheck.core.plural import plural
from mlcheck.probe.measure.drive import Clock, await_device, inconclusive
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.observe.counters import of_process
from mlcheck.trial.observe.watch import Watch
from mlcheck.trial.trial import Trial

LEAST_BATCHES = 6
_LEAST_SLOW, _SLOW_S, _ENDLESS_S = 2, 1.0, 2.0  # of what takes so long a few tell enough, and more would not fit
_BY_FAR = 10.0
_MOST_BATCHES, _WARM_MOST = 60, 24
_QUEUES = 3
_STRETCH = 4.0
_FEW_STEPS = 6
_IDLE_S, _LOOK_S = 3.0, 0.05


@dataclass(frozen=True, slots=True)
class Round:
    """Seconds for a batch: in the loop, what it `waits` for data and what its step takes; `load` of the loader by

    itself, and `alone` of a step on a batch that is there, with no worker at work. Of a device that runs behind
    Python's back, `waits` is what the loop takes longer than the steps alone, as far as it waits.

    `needed` is what a step takes of one thread, without the time in which that was ready and had no core: more than
    it takes on a machine of its own, however busy this one is. Infinite where the system does not tell.
    """

    waits: float
    step: float
    load: float
    alone: float
    needed: float = math.inf

    @property
    def total(self) -> float:
        return self.waits + self.step

    @property
    def waiting(self) -> float:
        """Share of the loop in which it waits for data."""
        return self.waits / self.total

    @property
    def slowed(self) -> float:
        """Share of the loop that its steps take longer than alone."""
        return max(0.0, self.step - self.alone) / self.total


class Batches:
    """Passes over the training data without end; each batch with the seconds it took, and whether it began a pass."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self._open: Iterator[Any] | None = None
        self._read = 0

    def __next__(self) -> tuple[Any, float, bool]:
        start = time.perf_counter()
        fresh = self._open is None
        if self._open is None:
            self._open, self._read = self._trial.train_batches(), 0
        batch = next(self._open, self)
        if batch is self:
            if self._read <= LEAST_BATCHES:
                few = f"{plural(self._read, 'batch')} read: too few to time the loader" if self._read else ""
                raise NotMeasured(few or "the training data is empty")
            self._open = None
            batch, _, fresh = next(self)
        else:
            self._read += 1
        return batch, time.perf_counter() - start, fresh

    def __iter__(self) -> Self:
        return self

    def close(self) -> None:
        """End the pass, and its workers."""
        self._open = None


class Rounds:
    """Times rounds of blocks: loop, loader, steps. Every block drops what the block before left in the queues."""

    def __init__(self, trial: Trial, clock: Clock, limit: Clock, workers: int, ahead: int) -> None:
        """Blocks are cut short where `clock` runs out. Raises NotMeasured, inconclusive, where `limit` does."""
        self.batches = Batches(trial)
        self._trial, self._clock, self._limit = trial, clock, limit
        self._workers, self._ahead = workers, min(ahead, _WARM_MOST)
        self._steps = 0
        self._batch: Any = None
        self._estimate = self._warm_up()
        self._least = LEAST_BATCHES if self._estimate < _SLOW_S else _LEAST_SLOW

    @property
    def endless(self) -> Round | None:
        """As seen while warming up, where a batch takes seconds, and by far the most of them to load."""
        waits, step = self._rough
        slow = waits > max(_ENDLESS_S, _BY_FAR * step) and not self._asynchronous
        return Round(waits, step, waits, step) if slow else None

    def _warm_up(self) -> float:
        """The first steps allocate, and the first batch starts the workers; a rough time for a batch."""
        times = []
        for _ in range(max(3, self._workers + 1)):
            self._batch, waited, fresh = next(self.batches)
            times.append((0.0 if fresh and self._workers else waited, self._stepped(self._batch)))
            if not self._clock.left():
                break
        self._rough = min(times[1:] or times, key=sum)
        return sum(self._rough)

    def round(self, seconds: float, watch: Watch | None = None) -> Round:
        """One round of blocks that take about `seconds` each."""
        count = self._count(seconds)
        waits, step, read = self._loop(count, watch)
        if not self._workers:
            return self._on_device(
                Round(waits, step, waits, step), self._alone(count, watch) if self._asynchronous else step
            )
        self._estimate = waits + step
        load = self._loading(count, watch)
        await_idle()
        alone = self._alone(min(count, read), watch)
        return self._on_device(Round(waits, step, load, alone, self._needed(seconds)), alone)

    def _count(self, seconds: float) -> int:
        """Batches come in bursts as long as the queue, and a block that ends within one is off by the rest of it."""
        fitting = int(seconds / self._estimate)
        bursts = min(_QUEUES * self._ahead, int(_STRETCH * fitting))
        return max(self._least, 2 * self._workers, min(_MOST_BATCHES, fitting), bursts)

    def _on_device(self, found: Round, alone: float) -> Round:
        if not self._asynchronous:
            return found
        waits = min(found.waits, max(0.0, found.total - alone))
        return Round(waits, found.total - waits, found.load, alone)

    @property
    def _asynchronous(self) -> bool:
        return self._trial.device.type != "cpu"

    def _loop(self, count: int, watch: Watch | None) -> tuple[float, float, int]:
        for _ in range(self._ahead):
            self._stepped(next(self.batches)[0])
        await_device(self._trial.device)
        waits = steps = 0.0
        done = 0
        with _phase(watch, "loop"):
            while done < count and (self._clock.left() or done < self._least):
                self._batch, waited, fresh = next(self.batches)
                taken = self._stepped(self._batch)
                if not fresh:
                    waits, steps, done = waits + waited, steps + taken, done + 1
            steps += self._finishing()
        return waits / done, steps / done, done

    def _loading(self, count: int, watch: Watch | None) -> float:
        for _ in range(self._ahead):
            self._keep_to_limit()
            next(self.batches)
        taken, done = 0.0, 0
        with _phase(watch, "load"):
            while done < count and (self._clock.left() or done < self._least):
                self._keep_to_limit()
                _, waited, fresh = next(self.batches)
                if not fresh:
                    taken, done = taken + waited, done + 1
        return taken / done

    def _alone(self, count: int, watch: Watch | None) -> float:
        taken, done = 0.0, 0
        self._stepped(copied(self._batch))
        await_device(self._trial.device)
        with _phase(watch, "step"):
            while done < count and (self._clock.left() or done < 2):
                again = copied(self._batch)
                taken, done = taken + self._stepped(again), done + 1
            taken += self._finishing()
        return taken / done

    def _needed(self, seconds: float) -> float:
        """With more threads, those that wait for another that has no core would use theirs for nothing."""
        if self._asynchronous:
            return math.inf
        taken, done, clock = 0.0, 0, Clock(seconds)
        with _one_thread():
            while done == 0 or (done < _FEW_STEPS and clock.left() and self._clock.left()):
                again = copied(self._batch)
                before = _kept_waiting()
                taken, done = taken + self._stepped(again) - (_kept_waiting() - before), done + 1
        return math.inf if math.isnan(taken) else taken / done

    def read_for(self, seconds: float) -> None:
        """Batches and nothing else, for whoever looks on."""
        clock = Clock(seconds)
        while clock.left():
            next(self.batches)

    def _stepped(self, batch: Any) -> float:
        """Seconds of a step; on a device, those until it is queued."""
        self._keep_to_limit()
        start = time.perf_counter()
        self._trial.train_step(batch, self._steps)
        self._steps += 1
        return time.perf_counter() - start

    def _keep_to_limit(self) -> None:
        if not self._limit.left():
            raise inconclusive("a few batches take longer than the time limit leaves: raise --time-limit")

    def _finishing(self) -> float:
        """Seconds until the device has done what the steps have queued."""
        start = time.perf_counter()
        await_device(self._trial.device)
        return time.perf_counter() - start


def await_idle(most: float = _IDLE_S) -> None:
    """Until the workers have read ahead what they may, and use no core any more."""
    clock = Clock(most)
    while clock.left():
        before = _worked()
        time.sleep(_LOOK_S)
        if _worked() - before < _LOOK_S / 10:
            return


def _worked() -> float:
    counted = (of_process(child.pid) for child in active_children() if child.pid is not None)
    return sum(part.get("main", part.get("user", 0.0)) for part in counted)


def _kept_waiting() -> float:
    return of_process(os.getpid()).get("main_delay", math.nan)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _phase(watch: Watch | None, name: str) -> AbstractContextManager[None]:
    return watch.phase(name) if watch else nullcontext()
