"""What a loop's lost time is lost to, from the rounds and from what trainer and workers were seen to do.

The parts of the loop are told by its own times: what it waits for data, and what its steps take longer than alone.
Where other programs had the cores, only what is clear by processor time and waiting alone is said.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from statistics import median

from mlcheck.core.plural import plural
from mlcheck.probe.measure.speed.loading_shares import WAITS, Busy, loading_shares, named
from mlcheck.probe.measure.speed.step_time import StepTime, near, worth_mending

# The bounds of TensorFlow's profiler for an input pipeline that matters.
NOTICEABLE = 0.2
_SLIGHT = 0.15
_HARDLY = 0.08
_MOST = 0.5
_CLEARLY = 2.0
_TAKEN_BY_OTHERS = 0.15
_KEPT_WAITING = 0.15
_FIGHT = 0.1


class Lost(StrEnum):
    """Where the largest part of the loop's lost time goes."""

    NOTHING = "nothing"
    WAITING = "waiting"
    FIGHTING = "fighting"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Cause:
    """`gain` is how many times as fast the loop gets at most, `why` says why there is no verdict,
    or none by the clock: then the share is that of processor time and waiting, as on a machine of its own, and
    `calm` the seconds of loading and of training that are left of them.

    `shares` are the parts of the loading processes' time by what they did.
    """

    lost: Lost
    busy: Busy = Busy.UNKNOWN
    share: float = 0.0
    gain: float = 1.0
    shares: dict[Busy, float] | None = None
    why: str = ""
    calm: tuple[float, float] | None = None


def cause(seen: StepTime) -> Cause:
    """The verdict; UNCLEAR with its reason where rounds differ, or where others had the cores."""
    waiting, slowed = ([getattr(each, kind) for each in seen.rounds] for kind in ("waiting", "slowed"))
    waits = median(each.waits for each in seen.rounds)
    fights = median(max(0.0, each.step - each.alone) for each in seen.rounds)
    shares = loading_shares(seen)
    busy = named(shares, seen.workers)
    noise = disturbed(seen, busy)
    if not worth_mending(max(waits, fights), seen.batches) or max(*waiting, *slowed) < _HARDLY:
        hidden = any(near(each, seen.batches) for each in seen.rounds)
        return _on_a_busy_machine(seen, busy, shares, noise) if noise and hidden else _nothing(seen)
    if noise:
        return _on_a_busy_machine(seen, busy, shares, noise)
    if max(*waiting, *slowed) < NOTICEABLE:
        return _nothing(seen)
    if fighting(seen, slowed) and median(slowed) >= median(waiting):
        gain = median(each.total / max(each.load, each.alone) for each in seen.rounds)
        return Cause(Lost.FIGHTING, busy, median(slowed), gain, shares)
    if min(waiting) >= NOTICEABLE or (median(waiting) >= NOTICEABLE and min(waiting) >= _SLIGHT):
        return Cause(Lost.WAITING, busy, median(waiting), median(e.total / e.step for e in seen.rounds), shares)
    if outpaced(seen) and (share := 1.0 - sum(e.step for e in seen.rounds) / sum(e.total for e in seen.rounds)) >= (
        NOTICEABLE
    ):
        return Cause(Lost.WAITING, busy, share, 1.0 / (1.0 - share), shares)
    if max(median(waiting), median(slowed)) < _SLIGHT:
        return _nothing(seen)
    told = ", ".join(f"{100 * share:.0f}%" for share in waiting)
    return Cause(Lost.UNCLEAR, why=f"the rounds differ: the loop waits for data {told} of the time")


def _nothing(seen: StepTime) -> Cause:
    return Cause(Lost.NOTHING, share=median(each.waiting for each in seen.rounds))


def _on_a_busy_machine(seen: StepTime, busy: Busy, shares: dict[Busy, float], noise: str) -> Cause:
    """What is so clear by processor time and waiting alone that it holds on a machine of its own."""
    calm = when_calm(seen, busy)
    unclear = Cause(Lost.UNCLEAR, busy, shares=shares, why=noise)
    if calm is None or busy is Busy.UNKNOWN:
        return unclear
    loading, training = calm
    waits = max(0.0, loading - training) if seen.workers else loading
    share = min(0.99, waits / (waits + training))
    seen_to_wait = min(each.waiting for each in seen.rounds) >= NOTICEABLE
    if share < (_CLEARLY * NOTICEABLE if seen_to_wait else _MOST) or not worth_mending(waits, seen.batches):
        return unclear
    return Cause(Lost.WAITING, busy, share, 1.0 / (1.0 - share), shares, noise, calm)


def when_calm(seen: StepTime, busy: Busy) -> tuple[float, float] | None:
    """Seconds to load a batch at least, and to train on it at most, without the time in which a process had no core.

    None where the system does not tell that time, or where the program's own processes are too many for the cores.
    Those that wait for a lock wait for the one that holds it, and it may have no core: of them, only work counts.
    """
    loop, load, step = (seen.phases.get(name) for name in ("loop", "load", "step"))
    if loop is None or load is None:
        return None
    loader = load.worker if seen.workers and busy is not Busy.HANDOVER else load.trainer
    trainer = step.trainer if step is not None else loop.trainer
    if loader.delay is None or trainer.delay is None or busy is Busy.THREADS:
        return None
    training = median(min(each.alone * (1.0 - trainer.delay), each.needed) for each in seen.rounds)
    loading = median(each.load for each in seen.rounds)
    if seen.workers and busy is Busy.LOCK:
        return loading * min(1.0, seen.workers * loader.main), training
    if seen.workers * load.worker.main / max(_FIGHT, 1.0 - (load.worker.delay or 0.0)) > load.cores - _MOST:
        return None
    return loading * (1.0 - loader.delay), training


def outpaced(seen: StepTime) -> bool:
    """Whether the fastest round of loading is slower than the slowest of training by what is worth a word.

    Workers that take turns finish their batches together, so that a loop may find several of them or none at all,
    and its own waiting differs much; what it takes in the long run is what its loader takes.
    """
    return (1.0 - NOTICEABLE) * min(each.load for each in seen.rounds) > max(each.alone for each in seen.rounds)


def fighting(seen: StepTime, slowed: list[float]) -> bool:
    """Whether steps take longer while workers work, every time, and the trainer is seen to be without a core."""
    loop = seen.phases.get("loop")
    if not seen.workers or loop is None or min(slowed) < _SLIGHT or median(slowed) < NOTICEABLE or outpaced(seen):
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
            told = f"other programs used {phase.others:.0%} of {plural(phase.cores, 'core')}"
            lacked = f", and a process of this one was ready but without a core {kept:.0%} of the time" if kept else ""
            return f"the machine is too busy to tell: {told}{lacked}"
    return ""


def _hardly_delayed(seen: StepTime) -> bool:
    load = seen.phases.get("load")
    if load is None:
        return False
    loading = load.worker if seen.workers else load.trainer
    return loading.delay is not None and loading.delay < _KEPT_WAITING
