"""What a loop's lost time is lost to, from the rounds and from what trainer and workers were seen to do.

The parts of the loop are told by its own times: what it waits for data, and what its steps take longer than alone.
What loading is busy with is told by shares, not by times: of the time that the loading processes had a core or
waited for something else, the largest part names the cause where it is half of it. Time in which they were ready
and had no core says nothing about them and is taken out; where other programs had those cores, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from mlcheck.probe.measure.loading_lines import LoadingLines
from mlcheck.probe.measure.step_time import StepTime, near, worth_mending
from mlcheck.trial.observe.watch import Activity, Phase

# The bounds of TensorFlow's profiler for an input pipeline that matters.
NOTICEABLE = 0.2
_SLIGHT = 0.15
_HARDLY = 0.08
_MOST = 0.5
_CLEARLY = 2.0
_TAKEN_BY_OTHERS = 0.15
_KEPT_WAITING = 0.15
_FIGHT = 0.1
_DISK_BYTES = 1e6
_ASKED_NOTHING = ("poll", "pipe")


class Lost(StrEnum):
    """Where the largest part of the loop's lost time goes."""

    NOTHING = "nothing"
    WAITING = "waiting"
    FIGHTING = "fighting"
    UNCLEAR = "unclear"


class Busy(StrEnum):
    """What whoever loads is busy with."""

    CPU = "CPU"
    COLLATE = "collate"
    DISK = "disk"
    REMOTE = "remote"
    SLEEP = "sleep"
    LOCK = "lock"
    HANDOVER = "hand-over"
    MIXED = "mixed"
    UNKNOWN = "unknown"


WAITS = {Busy.DISK, Busy.REMOTE, Busy.SLEEP, Busy.LOCK}


@dataclass(frozen=True, slots=True)
class Cause:
    """`gain` is how many times as fast the loop gets at most, `why` says why there is no verdict,
    or none by the clock: then the share is that of processor time and waiting, as on a machine of its own.

    `shares` are the parts of the loading processes' time by what they did.
    """

    lost: Lost
    busy: Busy = Busy.UNKNOWN
    share: float = 0.0
    gain: float = 1.0
    shares: dict[Busy, float] | None = None
    why: str = ""


def cause(seen: StepTime) -> Cause:
    """The verdict; UNCLEAR with its reason where rounds differ, or where others had the cores."""
    waiting, slowed = ([getattr(each, kind) for each in seen.rounds] for kind in ("waiting", "slowed"))
    waits = median(each.waits for each in seen.rounds)
    fights = median(max(0.0, each.step - each.alone) for each in seen.rounds)
    shares = loading_shares(seen)
    busy = named(shares)
    if not worth_mending(max(waits, fights), seen.batches) or max(*waiting, *slowed) < _HARDLY:
        hidden = any(near(each, seen.batches) for each in seen.rounds)
        noise = disturbed(seen, busy) if hidden else ""
        return Cause(Lost.UNCLEAR, busy, shares=shares, why=noise) if noise else _nothing(seen)
    if noise := disturbed(seen, busy):
        calm = waiting_when_calm(seen, busy)
        sure = busy is not Busy.UNKNOWN and calm is not None and calm >= _CLEARLY * NOTICEABLE
        if min(waiting) < NOTICEABLE or calm is None or not sure:
            return Cause(Lost.UNCLEAR, busy, shares=shares, why=noise)
        return Cause(Lost.WAITING, busy, calm, 1.0 / (1.0 - calm), shares, noise)
    if max(*waiting, *slowed) < NOTICEABLE:
        return _nothing(seen)
    if fighting(seen, slowed) and median(slowed) >= median(waiting):
        gain = median(each.total / max(each.load, each.alone) for each in seen.rounds)
        return Cause(Lost.FIGHTING, busy, median(slowed), gain, shares)
    if min(waiting) >= NOTICEABLE or (median(waiting) >= NOTICEABLE and min(waiting) >= _SLIGHT):
        return Cause(Lost.WAITING, busy, median(waiting), median(e.total / e.step for e in seen.rounds), shares)
    if max(median(waiting), median(slowed)) < _SLIGHT:
        return _nothing(seen)
    told = ", ".join(f"{100 * share:.0f}%" for share in waiting)
    return Cause(Lost.UNCLEAR, why=f"the rounds differ: the loop waits for data {told} of the time")


def _nothing(seen: StepTime) -> Cause:
    return Cause(Lost.NOTHING, share=median(each.waiting for each in seen.rounds))


def waiting_when_calm(seen: StepTime, busy: Busy) -> float | None:
    """The share of waiting without the time in which a process was ready and had no core, as on a machine of its own.

    None where the system does not tell that time, or where the program's own processes are too many for the cores.
    """
    loop, load, step = (seen.phases.get(name) for name in ("loop", "load", "step"))
    if loop is None or load is None:
        return None
    loader = load.worker if seen.workers and busy is not Busy.HANDOVER else load.trainer
    trainer = step.trainer if step is not None else loop.trainer
    if loader.delay is None or trainer.delay is None:
        return None
    if seen.workers * load.worker.main / max(_FIGHT, 1.0 - (load.worker.delay or 0.0)) > load.cores - _MOST:
        return None
    loading = median(each.load for each in seen.rounds) * (1.0 - loader.delay)
    training = median(each.alone for each in seen.rounds) * (1.0 - trainer.delay)
    waits = max(0.0, loading - training) if seen.workers else loading
    return min(0.99, waits / (waits + training))


def fighting(seen: StepTime, slowed: list[float]) -> bool:
    """Whether steps take longer while workers work, every time, and the trainer is seen to be without a core."""
    loop = seen.phases.get("loop")
    if not seen.workers or loop is None or min(slowed) < _SLIGHT or median(slowed) < NOTICEABLE:
        return False
    return loop.trainer.delay is None or loop.trainer.delay >= _FIGHT


def disturbed(seen: StepTime, busy: Busy) -> str:
    """Why nothing can be said on this machine now; empty where other programs left it alone.

    Whoever waits for a disk, a lock or another machine, and hardly ever for a core, does so on a busy machine too.
    """
    for phase in seen.phases.values():
        if phase.others is None or phase.others < _TAKEN_BY_OTHERS:
            continue
        delays = [phase.trainer.delay, phase.worker.delay if phase.workers else None]
        kept = max((delay for delay in delays if delay is not None), default=None)
        if kept is None or kept >= _KEPT_WAITING:
            if busy in WAITS and _hardly_delayed(seen):
                continue
            told = f"other programs used {phase.others:.0%} of the {phase.cores} cores"
            lacked = f", and a process of this one was ready but without a core {kept:.0%} of the time" if kept else ""
            return f"the machine is too busy to tell: {told}{lacked}"
    return ""


def _hardly_delayed(seen: StepTime) -> bool:
    load = seen.phases.get("load")
    if load is None:
        return False
    loading = load.worker if seen.workers else load.trainer
    return loading.delay is not None and loading.delay < _KEPT_WAITING


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
    waited = sum(spent.get(kind, 0.0) for kind in ("disk", "socket", "sleep", "lock", "child"))
    # A worker that polls while it reads a sample waits for a socket, not for its queue: only the stacks tell.
    reading_idle = asked_nothing
    if workers:
        inside = at_work - doer.main - (doer.delay or 0.0) - waited
        reading_idle = min(asked_nothing, max(0.0, inside))
    joined = lines.collating / at_work if at_work else 0.0
    hands_over = bool(workers) and _takes_over(load, doer)
    disk, computing = spent.get("disk", 0.0), doer.main
    if load.worker.read + load.trainer.read > _DISK_BYTES and disk > _FIGHT:
        moved = min(doer.system, computing)  # copying from the page cache is part of reading
        disk, computing = disk + moved, computing - moved
    return {
        Busy.CPU: computing * (1.0 - joined),
        Busy.COLLATE: computing * joined,
        Busy.DISK: disk,
        Busy.REMOTE: spent.get("socket", 0.0) + reading_idle,
        Busy.SLEEP: spent.get("sleep", 0.0),
        Busy.LOCK: spent.get("lock", 0.0),
        Busy.HANDOVER if hands_over else Busy.UNKNOWN: asked_nothing - reading_idle,
    }


def _takes_over(load: Phase, worker: Activity) -> bool:
    """Whether those that pickle and unpickle batches are at work while the workers' main threads are not.

    A trainer that waits for a worker polls its queue; reading, unpickling and mapping a batch it does not.
    """
    pickling = max(0.0, worker.user + worker.system - worker.main)
    takes = 1.0 - load.trainer.waits.get("poll", 0.0) if load.trainer.waits else 0.0
    return takes + pickling >= _MOST


def named(shares: dict[Busy, float]) -> Busy:
    """The largest part where it is half of all, or clearly larger than the next; else MIXED."""
    total = sum(shares.values())
    if total < _FIGHT:
        return Busy.UNKNOWN
    (first, most), (_, next_) = sorted(shares.items(), key=lambda pair: -pair[1])[:2]
    return first if most >= _MOST * total or most >= _CLEARLY * next_ else Busy.MIXED
