"""The loader with other settings, measured on this machine: workers, reading ahead, workers that stay, pinned memory.

Every candidate is a loader like the program's own. Each is started, read until what it read ahead is used up, timed,
and ended before the next; the rounds go through all of them, so that what changes meanwhile meets all.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from multiprocessing import active_children
from statistics import median
from typing import Any, ClassVar, Self

import torch
from torch.utils.data import DataLoader

from mlcheck.core.cores import cores, quota, usable_cores
from mlcheck.core.finding import Location
from mlcheck.core.plural import plural
from mlcheck.probe.measure.drive import Clock, await_device, first_batches, inconclusive, length_of
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.observe.host import proportional_memory, shared_memory
from mlcheck.trial.observe.watch import Watch
from mlcheck.trial.trial import Trial

_ROUNDS = 3
_BLOCK_S = 0.6
_LEAST = 6
_STEPS = 5
_AHEAD = (2, 4)


@dataclass(frozen=True, slots=True)
class Settings:
    workers: int
    prefetch: int = 2
    pinned: bool = False

    def __str__(self) -> str:
        ahead = f", prefetch_factor={self.prefetch}" if self.workers and self.prefetch != 2 else ""
        return f"num_workers={self.workers}{ahead}{', pin_memory=True' if self.pinned else ''}"


@dataclass(frozen=True, slots=True)
class Timed:
    """Seconds a batch by round, seconds until the first one, and bytes of each worker (None: unknown)."""

    settings: Settings
    batch_s: tuple[float, ...]
    start_s: float
    worker_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LoaderSearch:
    """`users` are the program's own settings, among `timed`. `step_s` is a step on a batch that is there.

    `others` is the share of the cores that other programs used meanwhile. `limits` tell what holds the loader back.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 97

    users: Settings
    batches: int
    step_s: float
    timed: tuple[Timed, ...]
    others: float | None = None
    delay: float | None = None
    limits: tuple[str, ...] = ()
    not_run: tuple[str, ...] = ()
    place: Location = field(default_factory=Location)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        loader = trial.loaders.get("training")
        if not isinstance(loader, DataLoader):
            raise NotMeasured("the training batches come from no DataLoader whose settings could be changed")
        if trial.draws_batches or not trial.repeats_batches:
            raise NotMeasured("the program draws its batches itself, between its own steps")
        batch = first_batches(trial, 1)[0]
        step_s = _step(trial, batch)
        users = Settings(loader.num_workers, loader.prefetch_factor or 2, loader.pin_memory)
        timing = _Timing(loader, Clock(seconds * 0.8))
        with Watch() as watch, watch.phase("search"):
            timing.rounds([replace(users, workers=n, prefetch=2) for n in worker_counts(users.workers)])
            best = replace(users, workers=smallest(timing.timed(), step_s).workers)
            if best.workers:
                timing.rounds([replace(best, prefetch=ahead) for ahead in _AHEAD])
        phase = watch.phases().get("search")
        pinned = "pinned memory: there is no CUDA device here" if not torch.cuda.is_available() else ""
        return cls(
            users=users,
            batches=length_of(loader),
            step_s=step_s,
            timed=timing.timed(),
            others=phase.others if phase else None,
            delay=phase.trainer.delay if phase else None,
            limits=tuple(_limits(batch, timing)),
            not_run=tuple(filter(None, (pinned, *timing.skipped))),
            place=Location(*trial.entry),
        )


def worker_counts(users: int) -> list[int]:
    """None, powers of two up to twice the cores there are (some loaders wait), and the program's own."""
    most = max(1, int(2 * usable_cores()))
    return sorted({0, users, *(count for count in (1, 2, 4, 8, 16, 32) if count <= most)})


def loop_s(timed: Timed, step_s: float) -> float:
    """A batch in the loop: without workers, loading and training take turns; with some, the slower one counts."""
    load = median(timed.batch_s)
    return load + step_s if not timed.settings.workers else max(load, step_s)


def smallest(timed: tuple[Timed, ...], step_s: float) -> Settings:
    """The one with the fewest workers, then the least read ahead, that is within a twentieth of the best."""
    best = min(loop_s(each, step_s) for each in timed)
    fit = [each.settings for each in timed if loop_s(each, step_s) <= 1.05 * best]
    return min(fit, key=lambda each: (each.workers, each.prefetch))


def like(loader: DataLoader[Any], settings: Settings) -> DataLoader[Any]:
    """A loader of the same samples in the same order, with other settings."""
    given: dict[str, Any] = {
        "collate_fn": loader.collate_fn,
        "worker_init_fn": loader.worker_init_fn,
        "generator": loader.generator,
        "num_workers": settings.workers,
        "pin_memory": settings.pinned and torch.cuda.is_available(),
    }
    if settings.workers:
        given |= {"prefetch_factor": settings.prefetch, "multiprocessing_context": loader.multiprocessing_context}
    if isinstance(loader.dataset, torch.utils.data.IterableDataset):
        given |= {"batch_size": loader.batch_size, "drop_last": loader.drop_last}
    elif loader.batch_sampler is not None:
        given["batch_sampler"] = loader.batch_sampler
    else:
        given |= {"batch_size": None, "sampler": loader.sampler}
    return DataLoader(loader.dataset, **given)


class _Timing:
    """Times candidates, a round of all of them at a time; `skipped` says which could not be."""

    def __init__(self, loader: DataLoader[Any], clock: Clock) -> None:
        self._loader, self._clock = loader, clock
        self._found: dict[Settings, Timed] = {}
        self.skipped: list[str] = []

    def timed(self) -> tuple[Timed, ...]:
        return tuple(self._found.values())

    def rounds(self, candidates: list[Settings]) -> None:
        """Raises NotMeasured where not one round of all of them fits into the time, or there are too few batches."""
        for number in range(_ROUNDS):
            for settings in candidates:
                known = self._found.get(settings)
                if known and len(known.batch_s) > number:
                    continue
                if not self._clock.left() and number:
                    return
                if not self._clock.left():
                    raise inconclusive("one round of all settings takes longer than the time limit: raise --time-limit")
                self._once(settings)

    def _once(self, settings: Settings) -> None:
        begun = time.perf_counter()
        batches = iter(like(self._loader, settings))
        next(batches, None)
        start = time.perf_counter() - begun
        for _ in range(settings.workers * settings.prefetch):
            next(batches, None)
        times: list[float] = []
        while len(times) < _LEAST or (sum(times) < _BLOCK_S and len(times) < 200):
            begun = time.perf_counter()
            if next(batches, None) is None:
                break
            times.append(time.perf_counter() - begun)
        memory = _worker_bytes() if settings.workers else None
        del batches
        if len(times) < _LEAST:
            raise NotMeasured(
                f"a pass is too short to time {settings}: {plural(len(times), 'batch')} after those read ahead"
            )
        before = self._found.get(settings, Timed(settings, (), start))
        self._found[settings] = Timed(
            settings, (*before.batch_s, sum(times) / len(times)), min(start, before.start_s), memory
        )


def _worker_bytes() -> int | None:
    sizes = [size for child in active_children() if child.pid and (size := proportional_memory(child.pid))]
    return int(median(sizes)) if sizes else None


def _step(trial: Trial, batch: Any) -> float:
    times = []
    for index in range(_STEPS):
        again = copied(batch)
        begun = time.perf_counter()
        trial.train_step(again, index)
        await_device(trial.device)
        times.append(time.perf_counter() - begun)
    return median(times[1:])


def _limits(batch: Any, timing: _Timing) -> list[str]:
    told = []
    allowed = quota()
    if allowed < cores():
        told.append(
            f"the container may use {allowed:.3g} of {plural(cores(), 'core')} (cgroup cpu quota): workers share these"
        )
    free, size = shared_memory(), sum(tensor.nbytes for _, tensor in leaves(batch))
    most = max((t.settings.workers * t.settings.prefetch for t in timing.timed()), default=0)
    if free is not None and most * size > free / 2:
        told.append(
            f"shared memory is short: {most} batches of {size / 1e6:.3g} MB read ahead need "
            f"{most * size / 1e9:.3g} GB, and /dev/shm has {free / 1e9:.3g} GB (docker run --shm-size)"
        )
    return told
