"""Latencies as a table and as curves."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mlcheck.core.finding import Figure
from mlcheck.load.binomial import Interval
from mlcheck.load.estimates import SHARES
from mlcheck.load.handover import WORDS
from mlcheck.load.ladder import Ladder
from mlcheck.load.limits import Latency
from mlcheck.load.percentiles import Decision, percentile
from mlcheck.load.wording import cell


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


def figures(found: list[Line], ladder: Ladder, queries: str, limits: Latency) -> tuple[Figure, ...]:
    return (
        _table(found, ladder, queries),
        _by_percentile(ladder, queries, limits),
        _over_time(ladder, queries),
    )


def _table(found: list[Line], ladder: Ladder, queries: str) -> Figure:
    """What is handed over: every number with its interval, its limit and what was decided."""
    rows: list[list[str | float | None]] = []
    for line in found:
        rung = next(rung for rung in ladder.rungs if rung.workers == line.workers)
        phase, closed = rung.phase("open", queries), rung.phase("closed", queries)
        assert phase is not None
        beside = None
        if closed is not None and line.measure in SHARES and len(closed.answered):
            beside = cell(percentile(closed.service_ms, SHARES[line.measure]))
        low, high = (None if math.isnan(end) else cell(end) for end in (line.value.low, line.value.high))
        measured: list[str | float | None] = [
            line.workers,
            cell(phase.rate),
            line.name,
            cell(line.value.value),
            low,
            high,
        ]
        rows.append([*measured, line.limit, WORDS[line.decision] if line.decision else "", line.n, beside])
    columns = ["in parallel", "queries/s", "latency", "ms", "from", "to", "limit", "verdict", "n", "closed loop, ms"]
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
        series.append({"name": ladder.counted(rung.workers), "x": nines.round(3).tolist(), "y": y})
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
        series.append({"name": ladder.counted(rung.workers), "x": x, "y": y})
    data = {"series": series, "x_label": "seconds", "y_label": "slowest, ms", "log_y": True}
    return Figure("curves", f"Latency over time, {queries} queries", data)
