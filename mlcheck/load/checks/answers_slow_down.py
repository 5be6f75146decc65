"""Judges whether a query takes the longer, the more queries were answered before it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.load.ladder import RANDOM, Ladder, Phase
from mlcheck.load.series import Floats, trend
from mlcheck.load.wording import number

_BLOCKS, _LEAST_BLOCKS, _LEAST_IN_BLOCK = 40, 12, 5
_EACH, _TOGETHER = 1.15, 1.5
_LEAST_MS = 0.1
_HELP = "look for what outlives a query and is searched by the next one: lists, logs, caches without a bound"


@dataclass(frozen=True)
class _Course:
    """The service times of a phase, by the number of queries answered in it."""

    phase: Phase

    @cached_property
    def blocks(self) -> Floats:
        """Medians of blocks of equally many queries, in the order in which these were begun."""
        times = self.phase.answered.service_ms
        parts = np.array_split(times, max(1, min(_BLOCKS, len(times) // _LEAST_IN_BLOCK)))
        return np.array([np.median(part) if len(part) else math.nan for part in parts])

    @cached_property
    def queries(self) -> Floats:
        return np.linspace(0.0, len(self.phase.answered), len(self.blocks))

    @property
    def ends(self) -> tuple[float, float]:
        """Milliseconds in the first quarter, and in the last."""
        quarters = np.array_split(self.blocks, 4)
        return float(np.median(quarters[0])), float(np.median(quarters[-1]))

    @property
    def times(self) -> float:
        """How often the last quarter takes as long as the first."""
        first, last = self.ends
        return last / first if first > 0 else 1.0

    @property
    def rises(self) -> bool:
        found = trend(self.queries, self.blocks)
        return found.steady and found.low > 0

    @property
    def told(self) -> str:
        first, last = self.ends
        how = "back to back" if self.phase.kind == "closed" else f"at {number(self.phase.rate)} a second"
        return f"from {number(first)} to {number(last)} ms over {len(self.phase.answered):,} queries {how}"


def check(ladder: Ladder) -> Verdict:
    if ladder.users:
        return Verdict(Outcome.SKIP, reason="Locust's users wait for each other: one query's own time is not seen")
    rung = ladder.rungs[0]
    phases = [phase for kind in ("closed", "open") if (phase := rung.phase(kind, RANDOM)) is not None]
    courses = [_Course(phase) for phase in phases]
    if len(courses) < 2 or min(len(course.blocks) for course in courses) < _LEAST_BLOCKS:
        reason = f"it takes two phases of {_LEAST_BLOCKS * _LEAST_IN_BLOCK} answers each to tell: measure longer"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason)
    told = ", and ".join(course.told for course in courses)
    asked, figure = sum(len(phase.answered) for phase in phases), _figure(courses)
    rising = [course for course in courses if course.rises]
    if len(rising) < len(courses) and all(course.times < _TOGETHER for course in rising):
        calm = f"the usual query does not take steadily longer: {told}"
        return Verdict(Outcome.PASS, calm, figures=(figure,), looked_at=asked)
    message = f"a query takes the longer, the more came before it: {told}, with {ladder.counted(rung.workers)}"
    if len(rising) < len(courses) or not _enough(courses):
        why = "in one of two phases only" if len(rising) < len(courses) else "too little to be sure of"
        reason = f"{why}: measure longer, with `--duration`"
        return Verdict(Outcome.INCONCLUSIVE, message, reason, figures=(figure,), looked_at=asked)
    noise = next((phase.noise for phase in phases if phase.noise), "")
    if noise:
        reason = f"NOISY: {noise}; measure on an idle machine"
        return Verdict(Outcome.INCONCLUSIVE, message, reason, figures=(figure,), looked_at=asked)
    finding = Finding(message, help=_HELP)
    return Verdict(Outcome.WARN, message, findings=(finding,), figures=(figure,), looked_at=asked)


def _enough(courses: list[_Course]) -> bool:
    """Whether what rises does so by far more than a machine's clock or a neighbour may account for."""
    gained = sum(course.ends[1] - course.ends[0] for course in courses)
    times = [course.times for course in courses]
    return min(times) >= _EACH and math.prod(times) >= _TOGETHER and gained >= _LEAST_MS


def _figure(courses: list[_Course]) -> Figure:
    names = {"closed": "back to back", "open": "at a rate"}
    series = [
        {"name": names[course.phase.kind], "x": course.queries.tolist(), "y": course.blocks.tolist()}
        for course in courses
    ]
    data = {"series": series, "x_label": "queries of the phase", "y_label": "service time, ms"}
    return Figure("curves", "The time of one query over the queries before it", data)
