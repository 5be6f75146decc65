"""Judges whether more workers answer more queries, and names the number beyond which they do not."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.handover import Held, held_against_limits
from mlcheck.load.ladder import Ladder, Rung
from mlcheck.load.limits import Limits
from mlcheck.load.percentiles import Decision
from mlcheck.load.wording import cell, number

_GAIN = 1.1


def check(ladder: Ladder, limits: Limits) -> Verdict:
    if ladder.users:
        return Verdict(Outcome.SKIP, reason="Locust sends at a rate: what the service could carry was not measured")
    rungs = [rung for rung in ladder.rungs if rung.capacity]
    if not rungs:
        return Verdict(Outcome.SKIP, reason="no number of workers was measured")
    shown = ", ".join(f"{number(rung.capacity)}/s at {rung.workers}" for rung in rungs)
    summary = f"queries answered: {shown}; {_knee(rungs)}{_fewer_threads(rungs)}"
    figure = _figure(rungs)
    numbers = {f"queries a second at {rung.workers}": cell(rung.capacity) for rung in rungs}
    asked = sum(len(phase.samples) for rung in rungs for phase in rung.phases if phase.kind == "closed")
    least = limits.scaling.min_efficiency
    if least is None:
        reason = "measured, but no limit is stated to judge it by: set [scaling] min_efficiency in the SLO file"
        return Verdict(Outcome.INCONCLUSIVE, summary, reason, (), (figure,), numbers, asked)
    first = rungs[0]
    judged = [rung for rung in rungs[1:] if rung.workers * rung.threads <= ladder.cores]
    if not judged:
        reason = f"{ladder.cores:g} cores are too few for more than {plural(first.workers, 'such worker')}"
        return Verdict(Outcome.INCONCLUSIVE, summary, reason, (), (figure,), numbers, asked)
    weak = [rung for rung in judged if _efficiency(rung, first) < least]
    noisy = [phase.noise for rung in (first, *weak) for phase in rung.phases if phase.kind == "closed" and phase.noise]
    if weak and noisy:
        return Verdict(Outcome.INCONCLUSIVE, summary, f"NOISY: {noisy[0]}", (), (figure,), numbers, asked)
    held = held_against_limits(
        Held(
            "scaling",
            f">= {least:.0%}",
            f"{_efficiency(rung, first):.0%} of {rung.workers / first.workers:g} times",
            Decision.BROKEN if rung in weak else Decision.KEPT,
            -_efficiency(rung, first),
            rung.workers,
        )
        for rung in judged
    )
    findings = tuple(
        Finding(
            f"{plural(rung.workers, 'worker')} answer {number(rung.capacity)} queries a second, "
            f"{_efficiency(rung, first):.0%} of {rung.workers / first.workers:g} times "
            f"what {first.workers} does; the limit is {least:.0%}",
            help="look for a lock, a shared device or memory bandwidth, and for more threads than cores",
        )
        for rung in weak
    )
    return Verdict(Outcome.FAIL if weak else Outcome.PASS, summary, "", findings, (*held, figure), numbers, asked)


def _efficiency(rung: Rung, first: Rung) -> float:
    return rung.capacity / (rung.workers / first.workers * first.capacity)


def _knee(rungs: list[Rung]) -> str:
    """The smallest number of workers beyond which none answers a tenth more."""
    for place, rung in enumerate(rungs[:-1]):
        best = max(rungs[place + 1 :], key=lambda other: other.capacity)
        if best.capacity < _GAIN * rung.capacity:
            change = best.capacity / rung.capacity - 1
            return f"the knee is at {rung.workers}: {best.workers} workers change it by {change:+.0%}, none does better"
    return f"no knee up to {rungs[-1].workers}"


def _fewer_threads(rungs: list[Rung]) -> str:
    """More than so many times as much comes of fewer threads each, and not of a wrong measurement."""
    first = rungs[0]
    better = [rung for rung in rungs if rung.threads < first.threads and _efficiency(rung, first) > _GAIN]
    if not better:
        return ""
    best = max(better, key=lambda rung: _efficiency(rung, first))
    return (
        f"; a worker with {plural(best.threads, 'CPU thread')} answers {number(_efficiency(best, first))} times what "
        f"one with {first.threads} does: try `--threads {best.threads}`"
    )


def _figure(rungs: list[Rung]) -> Figure:
    x, first = [rung.workers for rung in rungs], rungs[0]
    series = [
        {"name": "measured", "x": x, "y": [rung.capacity for rung in rungs]},
        {"name": "ideal", "x": x, "y": [first.capacity * rung.workers / first.workers for rung in rungs]},
    ]
    data = {"series": series, "x_label": "workers", "y_label": "queries a second"}
    return Figure("curves", "Throughput by workers", data)
