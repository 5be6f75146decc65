"""Judges whether workers keep more memory with every query: a leak."""

from __future__ import annotations

import numpy as np

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.crew import Sighting
from mlcheck.load.handover import Held, held_against_limits
from mlcheck.load.ladder import RANDOM, Ladder, Phase
from mlcheck.load.limits import Limits
from mlcheck.load.percentiles import Decision
from mlcheck.load.series import Trend, trend
from mlcheck.load.wording import number

_DEFAULT_LIMIT = 1.0
_LEAST_MB = 2.0
_LEAST_SIGHTINGS = 12


def check(ladder: Ladder, limits: Limits) -> Verdict:
    if ladder.remote:
        return Verdict(Outcome.SKIP, reason="the memory of a running service is not to be seen from here")
    stated = limits.memory.growth_mb_per_1k_queries
    limit = _DEFAULT_LIMIT if stated is None else stated
    phases = [phase for phase in ladder.phases if phase.set == RANDOM and phase.kind == "open"]
    every = [(phase, seen, trend(*_axes(seen))) for phase in phases for seen in _last_half(phase)]
    trends = [entry for entry in every if len(entry[1]) >= _LEAST_SIGHTINGS and entry[2].low == entry[2].low]
    if not trends:
        return Verdict(Outcome.INCONCLUSIVE, reason="too few looks at the memory to tell: measure longer")
    phase, seen, worst = max(trends, key=lambda entry: _weight(entry[2]))
    looked_at = sum(len(entry[1]) for entry in trends)
    figure = _figure(phase, seen)
    gained = float(np.median([one.anon_mb for one in seen[-3:]]) - np.median([one.anon_mb for one in seen[:3]]))
    told = (
        f"{number(worst.slope)} MB for every 1,000 queries [{number(worst.low)}, {number(worst.high)}], "
        f"seen with {plural(phase.workers, 'worker')}"
    )
    grows = worst.steady and worst.low > limit and gained >= _LEAST_MB
    held = Held(
        "memory growth",
        f"<= {limit:g} MB/1,000",
        f"{number(worst.slope)} MB [{number(worst.low)}, {number(worst.high)}]",
        Decision.BROKEN if grows else Decision.KEPT,
        workers=phase.workers,
    )
    figures = (*held_against_limits([] if stated is None else [held]), figure)
    if grows:
        asked = seen[-1].queries - seen[0].queries
        message = f"a worker's memory grows by {told}: {number(gained)} MB in its last {asked:,} queries"
        finding = Finding(
            message, help="look for lists, caches and graphs (a tensor with grad_fn) that outlive a query"
        )
        outcome = Outcome.WARN if stated is None else Outcome.FAIL
        return Verdict(outcome, told, findings=(finding,), figures=figures, looked_at=looked_at)
    calm = f"private memory does not grow steadily: at most by {told}"
    return Verdict(Outcome.PASS, calm, figures=figures, looked_at=looked_at)


def _weight(found: Trend) -> tuple[bool, float]:
    return found.steady, found.low


def _last_half(phase: Phase) -> list[list[Sighting]]:
    """What was seen of each worker in the later half of the phase: caches have filled by then."""
    by_worker: dict[int, list[Sighting]] = {}
    for sighting in phase.sightings:
        by_worker.setdefault(sighting.worker, []).append(sighting)
    return [seen[len(seen) // 2 :] for seen in by_worker.values()]


def _axes(seen: list[Sighting]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([one.queries / 1000 for one in seen]), np.array([one.anon_mb for one in seen])


def _figure(phase: Phase, seen: list[Sighting]) -> Figure:
    every = [one for one in phase.sightings if one.worker == seen[0].worker]
    series = [{"name": "private memory", "x": [one.queries for one in every], "y": [one.anon_mb for one in every]}]
    data = {"series": series, "x_label": "queries", "y_label": "MB"}
    return Figure("curves", f"Memory of one worker of {phase.workers} over its queries", data)
