"""Holds latencies against their limits, one line for each number of workers and each measure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.load.binomial import Interval
from mlcheck.load.ladder import Ladder, Phase, Rung
from mlcheck.load.limits import Latency
from mlcheck.load.percentiles import Decision, percentile, percentile_interval, rule
from mlcheck.load.series import block_intervals, mean_interval
from mlcheck.load.wording import cell, milliseconds, number, workers

SHARES = {"p50_ms": 0.5, "p90_ms": 0.9, "p99_ms": 0.99, "p999_ms": 0.999}
_LATE = 0.1


@dataclass(frozen=True, slots=True)
class Line:
    """One number against its limit, where there is one. `why` says what keeps the decision open."""

    workers: int
    measure: str
    value: Interval
    limit: float | None
    decision: Decision | None
    n: int
    over: int = 0
    why: str = ""

    @property
    def name(self) -> str:
        return "mean" if self.measure == "mean_ms" else self.measure.removesuffix("_ms").replace("p999", "p99.9")


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
    ordered = np.sort(values)
    blocks = dict(zip(SHARES, block_intervals(values, tuple(SHARES.values())), strict=True))
    for measure in ("mean_ms", *SHARES):
        limit = getattr(limits, measure)
        over = int((values > limit).sum()) if limit is not None else 0
        if measure == "mean_ms":
            value = mean_interval(values)
            decision, why = _of_mean(value, limit)
        else:
            value = _wider(percentile_interval(ordered, SHARES[measure]), blocks[measure])
            decision, why = _of_share(len(values), over, measure, phase, limit, confidence)
        if limit is not None:
            decision, why = _doubted(decision, why, phase, limit)
        yield Line(phase.workers, measure, value, limit, decision, len(values), over, why)


def _wider(one: Interval, other: Interval) -> Interval:
    """The wider of two intervals: independent samples, and blocks of time. NaN counts as unknown."""
    if math.isnan(other.low):
        return one
    low = one.low if math.isnan(one.low) else min(one.low, other.low)
    return Interval(one.value, low, one.high if math.isnan(one.high) else max(one.high, other.high))


def _of_mean(value: Interval, limit: float | None) -> tuple[Decision | None, str]:
    if limit is None:
        return None, ""
    if value.high <= limit:
        return Decision.KEPT, ""
    if value.low > limit:
        return Decision.BROKEN, ""
    return Decision.OPEN, "its interval reaches over the limit: measure longer"


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
    judged = [line for line in found if line.limit is not None]
    looked_at = sum(line.n for line in found if line.measure == "mean_ms")
    summary, figures = _summary(found, ladder, queries), _figures(found, ladder, queries, limits)
    overloaded = [] if ladder.stopped else [rung for rung in ladder.rungs if ladder.carries_too_little(rung, queries)]
    broken = [line for line in judged if line.decision is Decision.BROKEN]
    waiting = [line for line in judged if line.decision is Decision.OPEN]
    stated = any(getattr(limits, measure) is not None for measure in ("mean_ms", *SHARES))
    numbers = {
        f"{line.name} at {line.workers} (ms)": line.value.value
        for line in found
        if line.measure in ("p50_ms", "p99_ms")
    }
    common = {"figures": figures, "numbers": numbers, "looked_at": looked_at}
    if not found and overloaded:
        told, noise = _overload(overloaded[-1], ladder), _noise(overloaded[-1])
        if noise:
            return Verdict(Outcome.INCONCLUSIVE, told, f"NOISY: {noise}; measure on an idle machine", **common)  # type: ignore[arg-type]
        return Verdict(Outcome.FAIL, told, findings=(Finding(told, help=help_),), **common)  # type: ignore[arg-type]
    if not found:
        return Verdict(Outcome.SKIP, reason=ladder.stopped or f"no {queries} queries were measured")
    if broken:
        findings = tuple(Finding(_told(line, ladder, queries), help=help_) for line in broken)
        return Verdict(Outcome.FAIL, summary, findings=findings, **common)  # type: ignore[arg-type]
    if waiting:
        first = waiting[0]
        reason = f"{first.name} at {workers(first.workers)} ({milliseconds(first.value)}): {first.why}"
        reason += f"; {len(waiting) - 1} more undecided" if len(waiting) > 1 else ""
        return Verdict(Outcome.INCONCLUSIVE, summary, reason, **common)  # type: ignore[arg-type]
    if not stated:
        reason = f"measured, but no limit is stated to judge it by: set [latency.{queries}] in the SLO file"
        return Verdict(Outcome.INCONCLUSIVE, summary, reason, **common)  # type: ignore[arg-type]
    return Verdict(Outcome.PASS, summary, **common)  # type: ignore[arg-type]


def _told(line: Line, ladder: Ladder, queries: str) -> str:
    assert line.limit is not None
    rate = next(rung.phase("open", queries) for rung in ladder.rungs if rung.workers == line.workers)
    assert rate is not None
    over = f"; {line.over:,} of {line.n:,} queries took longer" if line.measure != "mean_ms" else ""
    return (
        f"{line.name} at {workers(line.workers)} is {milliseconds(line.value)}, over the limit of "
        f"{line.limit:g} ms, at {number(rate.rate)} {queries} queries a second{over}"
    )


def _overload(rung: Rung, ladder: Ladder) -> str:
    return (
        f"{workers(rung.workers)} can answer {number(rung.capacity)} queries a second, "
        f"and {ladder.plan.rate_qps:g} are to be expected"
    )


def _noise(rung: Rung) -> str:
    return next((phase.noise for phase in rung.phases if phase.noise), "")


def _summary(found: list[Line], ladder: Ladder, queries: str) -> str:
    parts = []
    for rung in ladder.rungs:
        told = {line.measure: line for line in found if line.workers == rung.workers}
        if told:
            phase = rung.phase("open", queries)
            assert phase is not None
            ms = ", ".join(f"{told[name].name} {milliseconds(told[name].value)}" for name in ("p50_ms", "p99_ms"))
            parts.append(f"{workers(rung.workers)} at {number(phase.rate)}/s: {ms}")
        elif ladder.carries_too_little(rung, queries):
            parts.append(f"{workers(rung.workers)}: overloaded, carries {number(rung.capacity)}/s")
    return "; ".join(parts)


def _figures(found: list[Line], ladder: Ladder, queries: str, limits: Latency) -> tuple[Figure, ...]:
    return (
        _table(found, ladder, queries),
        _by_percentile(ladder, queries, limits),
        _over_time(ladder, queries),
    )


_WORDS = {Decision.KEPT: "kept", Decision.BROKEN: "BROKEN", Decision.OPEN: "undecided", None: ""}


def _table(found: list[Line], ladder: Ladder, queries: str) -> Figure:
    """What is handed over: every number with its interval, its limit and what was decided."""
    rows: list[list[str | float | None]] = []
    for line in found:
        rung = next(rung for rung in ladder.rungs if rung.workers == line.workers)
        phase, closed = rung.phase("open", queries), rung.phase("closed", queries)
        assert phase is not None
        beside = None
        if closed is not None and line.measure in SHARES and len(closed.answered):
            beside = cell(percentile(np.sort(closed.answered.service_ms), SHARES[line.measure]))
        low, high = (None if math.isnan(end) else cell(end) for end in (line.value.low, line.value.high))
        measured: list[str | float | None] = [
            line.workers,
            cell(phase.rate),
            line.name,
            cell(line.value.value),
            low,
            high,
        ]
        rows.append([*measured, line.limit, _WORDS[line.decision], line.n, beside])
    columns = ["workers", "queries/s", "latency", "ms", "from", "to", "limit", "verdict", "n", "closed loop, ms"]
    return Figure(
        "table", f"Latency of {queries} queries, 95 % intervals, against its limits", {"columns": columns, "rows": rows}
    )


def _by_percentile(ladder: Ladder, queries: str, limits: Latency) -> Figure:
    series = []
    for rung in ladder.rungs:
        phase = rung.phase("open", queries)
        if phase is None or len(phase.latencies_ms) < 2:
            continue
        ordered = np.sort(phase.latencies_ms)
        nines = np.linspace(0.0, math.log10(len(ordered)), 120)
        y = [percentile(ordered, 1 - 10.0**-nine) for nine in nines]
        series.append({"name": workers(rung.workers), "x": nines.round(3).tolist(), "y": y})
    drawn = [
        {"name": f"limit {name.removesuffix('_ms')}", "y": limit}
        for name in SHARES
        if (limit := getattr(limits, name)) is not None
    ]
    data = {
        "series": series,
        "lines": drawn,
        "x_label": "nines: 1 is p90, 2 is p99, 3 is p99.9",
        "y_label": "latency, ms",
        "log_y": True,
    }
    return Figure("curves", f"Latency by percentile, {queries} queries from the moment they were due", data)


def _over_time(ladder: Ladder, queries: str) -> Figure:
    """The slowest query of each stretch of time: stalls stand out, a slow drift shows."""
    series = []
    for rung in ladder.rungs:
        phase = rung.phase("open", queries)
        if phase is None or not len(phase.answered):
            continue
        answered = phase.answered
        seconds = (answered.due - phase.begin_ns) / 1e9
        part = np.minimum((seconds / max(seconds.max(), 1e-9) * 120).astype(int), 119)
        x = [float(seconds[part == number].mean()) for number in np.unique(part)]
        y = [float(answered.latency_ms[part == number].max()) for number in np.unique(part)]
        series.append({"name": workers(rung.workers), "x": x, "y": y})
    data = {"series": series, "x_label": "seconds", "y_label": "slowest, ms", "log_y": True}
    return Figure("curves", f"Latency over time, {queries} queries", data)
