"""Judges the latency of the worst queries, and lists the slowest ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure
from mlcheck.core.plural import plural
from mlcheck.load.judging import verdict
from mlcheck.load.ladder import COMPLEX, RANDOM, Ladder
from mlcheck.load.limits import Limits
from mlcheck.load.percentiles import percentile
from mlcheck.load.survey import Survey
from mlcheck.load.wording import number

_SHOWN = 10


def check(ladder: Ladder, limits: Limits, survey: Survey) -> Verdict:
    judged = verdict(
        ladder, COMPLEX, limits.latency.complex, "cut or refuse queries that are too long, or batch them apart"
    )
    if not judged.summary:
        return judged
    ratio = _ratio(ladder)
    mined = "the slowest twentieth of the random queries" if ladder.mined else "the complex queries given"
    beside = f"; their p99 service time is {number(ratio)} times that of random ones" if ratio > 0 else ""
    summary = f"{judged.summary} ({mined}{beside})"
    return replace(judged, summary=summary, figures=(*judged.figures, _both(ladder), _slowest(survey)))


def _ratio(ladder: Ladder) -> float:
    """Service time of complex over random queries, p99, at the smallest number of workers."""
    found = []
    for name in (COMPLEX, RANDOM):
        phase = ladder.rungs[0].phase("closed", name)
        times = phase.service_ms if phase else np.empty(0)
        found.append(percentile(times, 0.99))
    return found[0] / found[1] if found[1] else 0.0


def _both(ladder: Ladder) -> Figure:
    """The distributions of both kinds, as shares of queries that took no longer."""
    series = []
    for name in (RANDOM, COMPLEX):
        phase = ladder.rungs[0].phase("closed", name)
        times = phase.service_ms if phase else np.empty(0)
        if len(times):
            shares = np.linspace(0.01, 1.0, 100)
            y = [percentile(times, share) for share in shares]
            series.append({"name": name, "x": (100 * shares).round(1).tolist(), "y": y})
    data = {"series": series, "x_label": "% of queries take no longer", "y_label": "service time, ms", "log_y": True}
    workers = ladder.rungs[0].workers
    return Figure("curves", f"Service time of both kinds of queries, {plural(workers, 'worker')}", data)


def _slowest(survey: Survey) -> Figure:
    rows = [
        [survey.names[number], round(survey.median_ms[number], 3), round(survey.slowest_ms[number], 3)]
        for number in survey.slowest[:_SHOWN]
    ]
    columns = ["query", "median, ms", "slowest, ms"]
    return Figure("table", "The slowest random queries, each alone", {"columns": columns, "rows": rows})
