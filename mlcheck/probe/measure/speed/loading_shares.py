"""What loading is busy with, told by shares and not by times.

Of the time that the loading processes had a core or waited for something else, the largest part names the cause where
it is half of it. Time in which they were ready and had no core says nothing about them and is taken out.
"""

from __future__ import annotations

from enum import StrEnum

from mlcheck.probe.measure.speed.loading_lines import LoadingLines
from mlcheck.probe.measure.speed.step_time import StepTime
from mlcheck.trial.observe.watch import Activity, Phase

_MOST = 0.5
_CLEARLY = 2.0
_LITTLE = 0.1
_TURNS = 0.75
_DISK_BYTES = 1e6
_ASKED_NOTHING = ("poll", "pipe")
_NOT_ASKED = ("disk", "socket", "sleep", "lock", "thread", "futex", "child")


class Busy(StrEnum):
    """What whoever loads is busy with."""

    CPU = "CPU"
    COLLATE = "collate"
    DISK = "disk"
    REMOTE = "remote"
    SLEEP = "sleep"
    LOCK = "lock"
    THREADS = "threads"
    HANDOVER = "hand-over"
    MIXED = "mixed"
    UNKNOWN = "unknown"


WAITS = {Busy.DISK, Busy.REMOTE, Busy.SLEEP, Busy.LOCK}


def loading_shares(seen: StepTime) -> dict[Busy, float]:
    """Parts of the time of whoever loads, run-delay taken out; empty where the system tells nothing."""
    load = seen.phases.get("load")
    if load is None:
        return {}
    return _split(load, seen.workers, seen.lines)


def _split(load: Phase, workers: int, lines: LoadingLines) -> dict[Busy, float]:
    doer = load.worker if workers else load.trainer
    waits = {kind: share for kind, share in doer.waits.items() if kind != "run"}
    idle = max(0.0, 1.0 - doer.main - (doer.delay or 0.0))
    scale = idle / sum(waits.values()) if waits else 0.0
    spent = {kind: share * scale for kind, share in waits.items()}
    asked_nothing = sum(spent.get(kind, 0.0) for kind in _ASKED_NOTHING)
    at_work = lines.reading + lines.collating
    waited = sum(spent.get(kind, 0.0) for kind in _NOT_ASKED)
    # A worker that polls while it reads a sample waits for a socket, not for its queue: only the stacks tell.
    reading_idle = asked_nothing
    if workers:
        inside = at_work - doer.main - (doer.delay or 0.0) - waited
        reading_idle = min(asked_nothing, max(0.0, inside))
    joined = lines.collating / at_work if at_work else 0.0
    hands_over = bool(workers) and _takes_over(load, doer)
    told_by_stacks = min(spent.get("futex", 0.0), lines.locking)
    unasked = asked_nothing - reading_idle
    threads = spent.get("thread", 0.0)
    in_threads = min(threads, max(0.0, doer.user + doer.system - doer.main))
    disk, computing = spent.get("disk", 0.0), doer.main + in_threads
    if load.worker.read + load.trainer.read > _DISK_BYTES and disk > _LITTLE:
        moved = min(doer.system, computing)  # copying from the page cache is part of reading
        disk, computing = disk + moved, computing - moved
    return {
        Busy.CPU: computing * (1.0 - joined),
        Busy.COLLATE: computing * joined,
        Busy.DISK: disk,
        Busy.REMOTE: spent.get("socket", 0.0) + reading_idle,
        Busy.SLEEP: spent.get("sleep", 0.0),
        Busy.LOCK: spent.get("lock", 0.0) + told_by_stacks,
        Busy.THREADS: threads - in_threads,
        Busy.HANDOVER: unasked if hands_over else 0.0,
        Busy.UNKNOWN: spent.get("futex", 0.0) - told_by_stacks + (0.0 if hands_over else unasked),
    }


def _takes_over(load: Phase, worker: Activity) -> bool:
    """Whether those that pickle and unpickle batches are at work while the workers' main threads are not.

    A trainer that waits for a worker polls its queue; reading, unpickling and mapping a batch it does not.
    """
    pickling = max(0.0, worker.user + worker.system - worker.main)
    takes = 1.0 - load.trainer.waits.get("poll", 0.0) if load.trainer.waits else 0.0
    return takes + pickling >= _MOST


def named(shares: dict[Busy, float], workers: int = 0) -> Busy:
    """The largest part where it is half of all, or clearly larger than the next; else MIXED.

    Of `workers` that take turns for one lock, each waits while the others hold it, so that of two it is half the time.
    """
    total = sum(shares.values())
    if total < _LITTLE:
        return Busy.UNKNOWN
    if workers > 1 and shares.get(Busy.LOCK, 0.0) >= _TURNS * total * (workers - 1) / workers:
        return Busy.LOCK
    (first, most), (_, next_) = sorted(shares.items(), key=lambda pair: -pair[1])[:2]
    return first if most >= _MOST * total or most >= _CLEARLY * next_ else Busy.MIXED
