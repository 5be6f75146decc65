"""The load test: at each number of workers, capacity and then latency at a rate, for two kinds of queries."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator
from typing import Any

from mlcheck.core.cores import usable_cores
from mlcheck.core.plural import plural
from mlcheck.load import records
from mlcheck.load.arrivals import MOST, arrivals
from mlcheck.load.crew import Crew
from mlcheck.load.ladder import COMPLEX, RANDOM, Phase, Rung
from mlcheck.load.limits import Plan
from mlcheck.load.loops import TICKET
from mlcheck.load.machine import cpu_times, free_memory, memory
from mlcheck.load.series import warm_up_end
from mlcheck.load.wording import number

_LEAD_NS = 200_000_000
_HEADROOM = 0.98
_GRAVES = 3
_MOST_OF_FREE = 0.9
# A ticket costs some microseconds: beyond this rate the harness would be what is measured.
_FASTEST = 20_000.0


class Climb:
    """Climbs the ladder rung by rung; `rungs` holds what is measured so far, for a run that is interrupted.

    `phase_done` is called after each phase.
    """

    def __init__(self, crew: Crew, plan: Plan, sizes: dict[str, int], seed: int, remote: bool = False) -> None:
        """`sizes` is how many queries each set has. A remote service may share our cores: it is no stranger."""
        self.rungs: list[Rung] = []
        self.stopped = ""
        self.notices: list[str] = []
        self.show: Callable[[str], None] = lambda _: None
        self.phase_done: Callable[[], None] = lambda: None
        self._crew, self._plan, self._sizes, self._remote = crew, plan, sizes, remote
        self._seed = seed
        self._count = 0

    def rung(self, workers: int) -> None:
        """Add workers until there are so many, and run their phases."""
        threads = self._plan.threads or max(1, int(usable_cores() // workers))
        if told := self._too_large(workers):
            self.stopped = told
            return
        self.show(f"starting {plural(workers, 'worker')}")
        self._crew.resize(workers, threads)
        self._tell_own_threads(threads)
        self._rung(workers, threads)

    def _too_large(self, workers: int) -> str:
        """Why so many workers cannot be started, judged by those before: a machine must not be brought down."""
        own = [one.uss for rung in self.rungs for one in rung.memory if one.uss == one.uss]
        if not own:
            return ""
        more, free = (workers - self.rungs[-1].workers) * max(own), free_memory()
        if more <= _MOST_OF_FREE * free:
            return ""
        return f"{plural(workers, 'worker')} would take {number(more)} MB more, and {number(free)} MB are free"

    def _tell_own_threads(self, threads: int) -> None:
        own = {int(worker.loaded["threads"]) for worker in self._crew.workers} - {0, threads}
        if own:
            self.notices.append(
                f"the service sets {min(own)} threads itself, where each of {len(self._crew.workers)} workers has "
                f"room for {threads}: it was measured as it is"
            )

    def _rung(self, workers: int, threads: int) -> None:
        starts = tuple((worker.loaded["load_s"], worker.loaded["first_ms"]) for worker in self._crew.workers)
        phases: list[Phase] = []
        self.rungs.append(Rung(workers, threads, starts, (), ()))
        for phase in self._phases(workers, threads):
            phases.append(phase)
            self.rungs[-1] = Rung(workers, threads, starts, tuple(phases), ())
            dead = [casualty for rung in self.rungs for one in rung.phases for casualty in one.casualties]
            if len(dead) >= _GRAVES:
                died = f"{len(dead)} workers died or hung by {plural(workers, 'worker')}"
                self.stopped = f"{died}, so the ladder ended there"
                return
            if phase.casualties:
                self._crew.resize(workers, threads)
            self.phase_done()
        found = tuple(memory(pid) for pid in self._crew.pids)
        self.rungs[-1] = Rung(workers, threads, starts, tuple(phases), found)

    def _phases(self, workers: int, threads: int) -> Iterator[Phase]:
        """Capacity, then latency at the planned rate; complex queries load the workers as much as random ones do."""
        seconds, share = self._plan.duration_s, self._plan.share_of_capacity
        for name in self._sizes:
            part = 1.0 if name == RANDOM else 0.5
            self.show(f"{plural(workers, 'worker')}: capacity, {name} queries")
            closed = self._run(workers, threads, "closed", name, max(min(1.0, seconds), seconds / 3 * part))
            yield closed
            capacity = closed.throughput
            rate = self._plan.rate_qps if name == RANDOM and self._plan.rate_qps else share * capacity
            if name == RANDOM and self._plan.rate_qps and capacity:
                share = min(0.9, self._plan.rate_qps / capacity)
            if name == COMPLEX or not self._plan.rate_qps:
                rate = min(rate, _FASTEST * workers, 0.98 * MOST / (seconds * part))
            if 0 < rate <= _HEADROOM * capacity:
                self.show(f"{plural(workers, 'worker')}: {number(rate)} {name} queries a second")
                yield self._run(workers, threads, "open", name, seconds * part, rate)

    def _run(self, workers: int, threads: int, kind: str, name: str, seconds: float, rate: float = 0.0) -> Phase:
        self._count += 1
        command: dict[str, Any] = {"do": kind, "set": name, "phase": self._count, "spin": workers < usable_cores()}
        rows, planned, until = MOST, None, int(seconds * 1e9)
        if kind == "open":
            offsets, numbers = arrivals(rate, seconds, self._sizes[name], self._seed + self._count, name == COMPLEX)
            self._crew.write_tickets(b"".join(TICKET.pack(*pair) for pair in zip(offsets.tolist(), numbers.tolist())))
            if len(offsets) == MOST:
                self.notices.append(f"a phase at {number(rate)} queries a second ended after {MOST:,} of them")
            rows, until = len(offsets) + 1, int((1.5 * seconds + 1.0) * 1e9)
            planned = (offsets, numbers)
        asked = time.perf_counter_ns()
        begin = asked + _LEAD_NS
        command |= {"begin": begin, "until": begin + until, "each_once": name == COMPLEX}
        pids = [*self._crew.pids, os.getpid()]
        before = cpu_times(pids)
        paths, sightings, casualties = self._crew.run(command, rows, begin + until)
        wall, after = (time.perf_counter_ns() - asked) / 1e9, cpu_times(pids)
        waited, foreign = math.nan, math.nan
        if before and after:
            waited = max(0.0, after.waited - before.waited) / wall / workers
            foreign = (
                math.nan
                if self._remote
                else max(0.0, (after.busy - before.busy) - (after.ours - before.ours)) / wall / usable_cores()
            )
        answers = [worker.answer for worker in self._crew.workers if worker.answer]
        if faults := [answer["error"] for answer in answers if answer["kind"] == "failed"]:
            raise RuntimeError(f"a worker of mlcheck failed: {faults[0]}")
        samples = records.read(paths)
        for path in paths:
            path.unlink()
        cut = warm_up_end(samples.service_ms) if kind == "closed" else 0
        cut_failed = int((samples.status[:cut] == records.FAILED).sum())
        return Phase(
            workers, threads, kind, name, rate, begin, begin + until, usable_cores(),
            samples.take(slice(cut, None)), cut, cut_failed,
            planned and (planned[0] + begin, planned[1]), tuple(sightings), tuple(casualties),
            _joined(answers), {number: place for one in answers for number, place in _by_number(one)},
            sum(answer.get("gpu_mb", 0.0) for answer in answers), waited, foreign,
        )  # fmt: skip


def _by_number(answer: dict[str, Any]) -> list[tuple[int, str]]:
    return [(int(number), place) for number, place in answer.get("not_finite", {}).items()]


def _joined(answers: list[dict[str, Any]]) -> tuple[dict[str, Any], ...]:
    """Errors of all workers, one a type of exception, with the first worker's example."""
    joined: dict[str, dict[str, Any]] = {}
    for answer in answers:
        for error in answer.get("errors", ()):
            kind = error["error"].partition(":")[0]
            known = joined.setdefault(kind, {**error, "count": 0})
            known["count"] += error["count"]
    return tuple(joined.values())
