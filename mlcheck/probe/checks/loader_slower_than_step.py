"""Judges whether training waits for its data."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.waiting import Waiting

_CLEARLY = 2.0
_WORTH_S = 0.020
_WAITS = 0.5


def check(seen: Waiting) -> Verdict:
    load, step = seen.load[1], seen.step[1]
    numbers = {"batch, ms": 1e3 * load, "step, ms": 1e3 * step, "workers": seen.workers}
    told = f"a batch takes {_ms(load)} to load and {_ms(step)} to train on, with {_workers(seen.workers)}"
    if load < _WORTH_S or seen.load[0] < _CLEARLY * seen.step[2]:
        overlap = seen.load[0] < seen.step[2] and seen.load[2] > seen.step[0] and load >= _WORTH_S
        outcome = Outcome.INCONCLUSIVE if overlap else Outcome.PASS
        reason = f"{told}: too close to tell which waits for which" if overlap else ""
        return Verdict(outcome, told, reason=reason, numbers=numbers, looked_at=seen.batches)
    wall = load + step if not seen.workers else max(load, step)
    message = f"training waits for its data: {told}; without waiting it is up to {wall / step:.2g} times as fast"
    place = Location()
    if seen.spots:
        place, share = seen.spots[0]
        how = "waits for something" if seen.computing < _WAITS else "computes"
        message += f". {share:.0%} of loading stands at this line and {how}"
    finding = Finding(message, place, help=_help(seen))
    return Verdict(Outcome.WARN, told, findings=(finding,), numbers=numbers, looked_at=seen.batches)


def _help(seen: Waiting) -> str:
    if not seen.workers:
        return "load in other processes: DataLoader(num_workers=4, persistent_workers=True), or load once and keep it"
    return "raise num_workers up to the number of cores, or make this line cheaper: decode, resize or read ahead once"


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"


def _workers(number: int) -> str:
    return f"{number} worker{'s' * (number != 1)}" if number else "no worker processes"
