"""What the ladder measured, as plain data: phases, rungs of so many workers, and the ladder they make."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mlcheck.core.plural import plural
from mlcheck.load import records
from mlcheck.load.binomial import Interval
from mlcheck.load.crew import Casualty, Sighting
from mlcheck.load.estimates import estimates
from mlcheck.load.limits import Plan
from mlcheck.load.machine import Memory
from mlcheck.load.percentiles import percentile
from mlcheck.load.records import FAILED, Integers, Samples
from mlcheck.load.series import Floats

RANDOM, COMPLEX = "random", "complex"
_FOREIGN, _WAITING = 0.10, 0.05


@dataclass(frozen=True)
class Phase:
    """One timed stretch. Samples begin after the warm-up; `cut` came before, `cut_failed` of those failed.

    `planned` are the moments queries were due in an open phase, with their numbers. `waited` is the share of the
    workers' time spent ready without a core, `foreign` the share of all cores that others used; NaN unknown.
    """

    workers: int
    threads: int
    kind: str
    set: str
    rate: float
    begin_ns: int
    until_ns: int
    cores: float
    samples: Samples
    cut: int = 0
    cut_failed: int = 0
    planned: tuple[Integers, Integers] | None = None
    sightings: tuple[Sighting, ...] = ()
    casualties: tuple[Casualty, ...] = ()
    errors: tuple[dict[str, Any], ...] = ()
    not_finite: dict[int, str] = field(default_factory=dict)
    gpu_mb: float = 0.0
    waited: float = math.nan
    foreign: float = math.nan

    @cached_property
    def answered(self) -> Samples:
        return self.samples.answered

    @cached_property
    def failed(self) -> int:
        """Queries that raised, those before the cut too."""
        return int((self.samples.status == FAILED).sum()) + self.cut_failed

    @cached_property
    def unanswered(self) -> Floats:
        """Of the queries that were due and had no answer at all: milliseconds they had waited by the end."""
        if self.planned is None:
            return np.empty(0)
        done = self.samples.due[self.samples.status != records.OPEN]
        due = self.planned[0]
        if len(done) == len(due):
            return np.empty(0)
        return (self.until_ns - due[~np.isin(due, done)]) / 1e6

    @cached_property
    def latencies_ms(self) -> Floats:
        """In the order in which queries were due: answered ones in full, unanswered ones as far as they waited."""
        answered = self.answered
        return np.concatenate((answered.latency_ms[np.argsort(answered.due, kind="stable")], self.unanswered))

    @cached_property
    def estimates(self) -> dict[str, Interval]:
        """Mean and percentiles of the latencies, with their intervals."""
        return estimates(self.latencies_ms)

    @cached_property
    def service_ms(self) -> Floats:
        """From the moment a worker began, of answered queries, the shortest first."""
        return np.sort(self.answered.service_ms)

    @cached_property
    def throughput(self) -> float:
        """Answers a second, from the first query after the warm-up to the last answer."""
        answered = self.answered
        seconds = (int(answered.end.max()) - int(answered.start.min())) / 1e9 if len(answered) else 0.0
        return len(answered) / seconds if seconds > 0 else 0.0

    @property
    def noise(self) -> str:
        """What disturbed the measurement, in words; empty when nothing is known to have."""
        if self.foreign > _FOREIGN:
            return f"other programs used {self.foreign:.0%} of the cores"
        if self.waited > _WAITING and self.workers * max(1, self.threads) <= self.cores:
            return f"the workers waited {self.waited:.0%} of the time for a core that should have been free"
        return ""

    @cached_property
    def _late_ms(self) -> Floats:
        """How late the harness itself began the queries for which a worker was waiting, sorted."""
        samples = self.answered
        idle = samples.free < samples.due
        return np.sort((samples.start - samples.due)[idle]) / 1e6

    @property
    def lateness_ms(self) -> float:
        """The 99th percentile of it."""
        return percentile(self._late_ms, 0.99) if len(self._late_ms) else 0.0

    @property
    def usual_lateness_ms(self) -> float:
        """The median of it."""
        return percentile(self._late_ms, 0.5) if len(self._late_ms) else 0.0


@dataclass(frozen=True, slots=True)
class Rung:
    """One number of workers. `starts` are seconds to load and milliseconds of the first query, of each worker."""

    workers: int
    threads: int
    starts: tuple[tuple[float, float], ...]
    phases: tuple[Phase, ...]
    memory: tuple[Memory, ...]

    def phase(self, kind: str, queries: str) -> Phase | None:
        return next((phase for phase in self.phases if (phase.kind, phase.set) == (kind, queries)), None)

    @property
    def capacity(self) -> float:
        """Random queries a second that this many workers answer when there is always a next one."""
        closed = self.phase("closed", RANDOM)
        return closed.throughput if closed else 0.0


@dataclass(frozen=True, slots=True)
class Ladder:
    """All rungs. `names` are the queries of each set; `stopped` says why the ladder ended early.

    `remote`: the service runs elsewhere, and is asked over so many connections, so that their memory is not its own.
    `users`: it is Locust's users who ask.
    """

    rungs: tuple[Rung, ...]
    names: dict[str, tuple[str, ...]]
    plan: Plan
    cores: float
    mined: bool = False
    stopped: str = ""
    remote: bool = False
    users: bool = False

    def counted(self, number: int) -> str:
        """`4 workers`, or what they are: connections, users."""
        noun = "user" if self.users else "connection" if self.remote else "worker"
        return plural(number, noun)

    def carries_too_little(self, rung: Rung, queries: str) -> bool:
        """Whether the planned rate was not sent, since these workers cannot answer it."""
        planned = bool(self.plan.rate_qps) and queries == RANDOM
        return planned and rung.phase("closed", queries) is not None and rung.phase("open", queries) is None

    @property
    def phases(self) -> Iterator[Phase]:
        return (phase for rung in self.rungs for phase in rung.phases)
