"""Holds latencies against their limits, one line for each number of workers and each measure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.load.binomial import Interval
from mlcheck.load.estimates import SHARES
from mlcheck.load.handover import Held, held_against_limits
from mlcheck.load.ladder import Ladder, Phase, Rung
from mlcheck.load.latency_figures import Line, figures
from mlcheck.load.limits import Latency
from mlcheck.load.percentiles import Decision, rule
from mlcheck.load.wording import milliseconds, number

_NAMED = ("p50_ms", "p99_ms")
_LATE = 0.1
_REACHES_OVER = "its interval reaches over the limit: measure longer"


def lines(ladder: Ladder, queries: str, limits: Latency) -> list[Line]:
    """All rungs that carried the planned rate, all measures."""
    found = []
    for rung in ladder.rungs:
        phase = rung.phase("open", queries)
        if phase is not None and len(phase.latencies_ms):
            found += list(_of_phase(phase, limits, ladder.plan.confidence))
    return found


def _of_phase(phase: Phase, limits: Latency, confidence: float) -> Iterator[Line]:
    values = phase.latencies_ms
    for measure, value in phase.estimates.items():
        limit = getattr(limits, measure)
        over = int((values > limit).sum()) if limit is not None else 0
        if measure == "mean_ms":
            decision, why = _of_mean(value, limit)
        else:
            decision, why = _of_share(len(values), over, measure, phase, limit, confidence)
        if limit is not None:
            decision, why = _doubted(decision, why, phase, limit)
            decision, why = _within(decision, why, value, limit)
        yield Line(phase.workers, measure, value, limit, decision, len(values), over, why)


def _within(decision: Decision | None, why: str, value: Interval, limit: float) -> tuple[Decision | None, str]:
    """The count takes queries for independent; blocks of time, which may be slow as a whole, must agree with it."""
    if decision is Decision.KEPT and value.high > limit:
        return Decision.OPEN, _REACHES_OVER
    return decision, why


def _of_mean(value: Interval, limit: float | None) -> tuple[Decision | None, str]:
    if limit is None:
        return None, ""
    if value.high <= limit:
        return Decision.KEPT, ""
    if value.low > limit:
        return Decision.BROKEN, ""
    return Decision.OPEN, _REACHES_OVER


def _of_share(
    n: int, over: int, measure: str, phase: Phase, limit: float | None, confidence: float
) -> tuple[Decision | None, str]:
    if limit is None:
        return None, ""
    ruling = rule(n, over, SHARES[measure], confidence)
    if ruling.decision is not Decision.OPEN:
        return ruling.decision, ""
    seconds = ruling.needed / phase.rate if phase.rate else 0.0
    more = f"needs {ruling.needed:,} more queries ({seconds:.0f} s) to be decided"
    return Decision.OPEN, more


def _doubted(decision: Decision | None, why: str, phase: Phase, limit: float) -> tuple[Decision | None, str]:
    """Noise makes queries slower and never faster: a limit that is kept all the same is kept."""
    if decision is not Decision.BROKEN:
        return decision, why
    if phase.lateness_ms > _LATE * limit:
        return Decision.OPEN, f"NOISY: the harness itself began queries up to {number(phase.lateness_ms)} ms late"
    if phase.noise:
        return Decision.OPEN, f"NOISY: {phase.noise}; measure on an idle machine"
    return decision, why


def verdict(ladder: Ladder, queries: str, limits: Latency, help_: str = "") -> Verdict:
    """FAIL where a limit is broken, INCONCLUSIVE where one is undecided or none is stated, else PASS."""
    found = lines(ladder, queries, limits)
    overloaded = [] if ladder.stopped else [rung for rung in ladder.rungs if ladder.carries_too_little(rung, queries)]
    if not found:
        if overloaded:
            return _overload(overloaded[-1], ladder, help_)
        return Verdict(Outcome.SKIP, reason=ladder.stopped or f"no {queries} queries were measured")
    measured = Verdict(
        Outcome.PASS,
        _summary(found, ladder, queries),
        figures=(*held_against_limits(_held(found, queries)), *figures(found, ladder, queries, limits)),
        numbers={f"{line.name} at {line.workers} (ms)": line.value.value for line in found if line.measure in _NAMED},
        looked_at=sum(line.n for line in found if line.measure == "mean_ms"),
    )
    broken = [line for line in found if line.decision is Decision.BROKEN]
    waiting = [line for line in found if line.decision is Decision.OPEN]
    if broken:
        findings = tuple(Finding(_told(line, ladder, queries), help=help_) for line in broken)
        return replace(measured, outcome=Outcome.FAIL, findings=findings)
    if waiting:
        first = waiting[0]
        reason = f"{first.name} at {ladder.counted(first.workers)} ({milliseconds(first.value)}): {first.why}"
        reason += f"; {len(waiting) - 1} more undecided" if len(waiting) > 1 else ""
        return replace(measured, outcome=Outcome.INCONCLUSIVE, reason=reason)
    if all(line.limit is None for line in found):
        reason = f"measured, but no limit is stated to judge it by: set [latency.{queries}] in the SLO file"
        return replace(measured, outcome=Outcome.INCONCLUSIVE, reason=reason)
    return measured


def _held(found: list[Line], queries: str) -> Iterator[Held]:
    for line in found:
        if line.limit is not None and line.decision is not None:
            allowed, told = f"<= {line.limit:g} ms", milliseconds(line.value)
            yield Held(f"{queries} {line.name}", allowed, told, line.decision, line.value.value, line.workers)


def _overload(rung: Rung, ladder: Ladder, help_: str) -> Verdict:
    """The largest number of workers cannot answer the rate that is to be expected."""
    told = (
        f"{ladder.counted(rung.workers)} can answer {number(rung.capacity)} queries a second, "
        f"and {ladder.plan.rate_qps:g} are to be expected"
    )
    noise = next((phase.noise for phase in rung.phases if phase.noise), "")
    if noise:
        return Verdict(Outcome.INCONCLUSIVE, told, f"NOISY: {noise}; measure on an idle machine")
    return Verdict(Outcome.FAIL, told, findings=(Finding(told, help=help_),), looked_at=1)


def _told(line: Line, ladder: Ladder, queries: str) -> str:
    assert line.limit is not None
    rate = next(rung.phase("open", queries) for rung in ladder.rungs if rung.workers == line.workers)
    assert rate is not None
    over = f"; {line.over:,} of {line.n:,} queries took longer" if line.measure != "mean_ms" else ""
    return (
        f"{line.name} at {ladder.counted(line.workers)} is {milliseconds(line.value)}, over the limit of "
        f"{line.limit:g} ms, at {number(rate.rate)} {queries} queries a second{over}"
    )


def _summary(found: list[Line], ladder: Ladder, queries: str) -> str:
    parts = []
    for rung in ladder.rungs:
        told = {line.measure: line for line in found if line.workers == rung.workers}
        if told:
            phase = rung.phase("open", queries)
            assert phase is not None
            ms = ", ".join(f"{told[name].name} {milliseconds(told[name].value)}" for name in ("p50_ms", "p99_ms"))
            parts.append(f"{ladder.counted(rung.workers)} at {number(phase.rate)}/s: {ms}")
        elif ladder.carries_too_little(rung, queries):
            parts.append(f"{ladder.counted(rung.workers)}: overloaded, carries {number(rung.capacity)}/s")
    return "; ".join(parts)
