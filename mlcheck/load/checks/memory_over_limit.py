"""Judges the memory of the workers, each and together."""

from __future__ import annotations

import math

import numpy as np

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.handover import Held, held_against_limits
from mlcheck.load.ladder import Ladder, Rung
from mlcheck.load.limits import Limits, Memory
from mlcheck.load.percentiles import Decision
from mlcheck.load.wording import number


def check(ladder: Ladder, limits: Limits) -> Verdict:
    if ladder.remote:
        return Verdict(Outcome.SKIP, reason="the memory of a running service is not to be seen from here")
    rungs = [rung for rung in ladder.rungs if rung.memory]
    if not rungs:
        return Verdict(Outcome.SKIP, reason="no number of workers was measured to its end")
    highest = {rung.workers: _peak(rung) for rung in rungs}
    totals = {rung.workers: _total(rung) for rung in rungs}
    summary = "; ".join(
        f"{plural(count, 'worker')}: {number(totals[count])} MB together, shared pages counted once; "
        f"the largest {number(highest[count])} MB with them"
        for count in totals
    )
    held = _held(highest, totals, limits.memory)
    figures = (*held_against_limits(one for one, _ in held), _table(rungs), _curve(totals))
    broken = tuple(finding for one, finding in held if one.decision is Decision.BROKEN)
    numbers, looked_at = _numbers(totals, ladder), sum(rung.workers for rung in rungs)
    if broken:
        return Verdict(Outcome.FAIL, summary, "", broken, figures, numbers, looked_at)
    if limits.memory.per_worker_mb is None and limits.memory.total_mb is None:
        reason = "measured, but no limit is stated to judge it by: set per_worker_mb or total_mb below [memory]"
        return Verdict(Outcome.INCONCLUSIVE, summary, reason, (), figures, numbers, looked_at)
    return Verdict(Outcome.PASS, summary, "", (), figures, numbers, looked_at)


def _numbers(totals: dict[int, float], ladder: Ladder) -> dict[str, float]:
    numbers = {f"MB at {count}": total for count, total in totals.items()}
    if len(totals) > 1:
        more, base = np.polyfit(list(totals), list(totals.values()), 1)
        numbers |= {"MB for one worker more": float(more), "MB for none": float(base)}
    gpu = max((phase.gpu_mb for phase in ladder.phases), default=0.0)
    return numbers | ({"GPU MB at most": gpu} if gpu else {})


def _held(highest: dict[int, float], totals: dict[int, float], limits: Memory) -> list[tuple[Held, Finding]]:
    """Each number against its limit, with what is to be said if the limit is broken."""
    return [
        (
            Held(
                name,
                f"<= {number(limit)} MB",
                f"{number(value)} MB",
                Decision.BROKEN if value > limit else Decision.KEPT,
                value,
                count,
            ),
            Finding(f"{told} {number(value)} MB with {plural(count, 'worker')}, over the limit of {number(limit)} MB"),
        )
        for name, told, found, limit in (
            ("memory of a worker", "the largest worker takes", highest, limits.per_worker_mb),
            ("memory of all", "all workers together take", totals, limits.total_mb),
        )
        if limit is not None
        for count, value in found.items()
    ]


def _peak(rung: Rung) -> float:
    """The most any worker had resident, at ten looks a second: what a memory limit of one process would meet."""
    seen = [sighting.rss_mb for phase in rung.phases for sighting in phase.sightings]
    return max([*seen, *(memory.rss for memory in rung.memory)])


def _total(rung: Rung) -> float:
    """Shared pages counted once (PSS), plus how far each worker's peak was above its end."""
    peaks: dict[int, float] = {}
    for phase in rung.phases:
        for sighting in phase.sightings:
            peaks[sighting.worker] = max(peaks.get(sighting.worker, 0.0), sighting.rss_mb)
    now = sum(memory.rss for memory in rung.memory)
    shared = sum(memory.uss if math.isnan(memory.pss) else memory.pss for memory in rung.memory)
    return shared + max(0.0, sum(sorted(peaks.values())[-len(rung.memory) :]) - now)


def _table(rungs: list[Rung]) -> Figure:
    rows = [
        [
            rung.workers,
            round(_total(rung), 1),
            round(_peak(rung), 1),
            round(sum(memory.uss for memory in rung.memory) / len(rung.memory), 1),
            round(float(np.median([start for start, _ in rung.starts])), 2),
            round(float(np.median([first for _, first in rung.starts])), 1),
        ]
        for rung in rungs
    ]
    columns = ["workers", "together, MB", "largest peak RSS, MB", "own (USS) of each, MB", "load, s", "first query, ms"]
    return Figure("table", "Memory and cold start", {"columns": columns, "rows": rows})


def _curve(totals: dict[int, float]) -> Figure:
    series = [{"name": "all workers", "x": list(totals), "y": list(totals.values())}]
    return Figure("curves", "Memory by workers", {"series": series, "x_label": "workers", "y_label": "MB together"})
