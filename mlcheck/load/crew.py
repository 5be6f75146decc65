"""Starts workers, gives them phases to run, watches them, and leaves none behind."""

from __future__ import annotations

import os
import selectors
import time
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlcheck.core.mistake import Mistake
from mlcheck.load import records
from mlcheck.load.machine import resident
from mlcheck.load.records import Samples
from mlcheck.load.worker_process import Job, WorkerProcess
from mlcheck.trial.channel import TOKEN
from mlcheck.trial.processes import kill_marked

_TICK_S = 0.1


@dataclass(frozen=True, slots=True)
class Casualty:
    """A worker that did not live to the end: how, on which query (-1 unknown), and what it left behind."""

    workers: int
    how: str
    query: int
    set: str
    stack: str
    stderr: str


class StartFailed(Exception):
    """The service does not load: `told` in a sentence, `traceback` of the user's code, if any."""

    def __init__(self, told: str, traceback: str = "") -> None:
        super().__init__(told)
        self.told, self.traceback = told, traceback


@dataclass(frozen=True, slots=True)
class Sighting:
    """One look at a worker in a phase: seconds since it began, queries begun, RSS and private RSS in megabytes."""

    worker: int
    at_s: float
    queries: int
    rss_mb: float
    anon_mb: float


class Crew:
    """Workers of one service. Use as a context manager: leaving it by any way kills them all."""

    def __init__(self, job: Job, folder: Path) -> None:
        self.workers: list[WorkerProcess] = []
        self.threads = 1
        self._job, self._folder = job, folder
        self._token = uuid.uuid4().hex
        self._count = 0
        self._tickets = os.open(folder / "tickets", os.O_RDWR | os.O_CREAT, 0o600)

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self.workers:
            worker.stop()
            worker.release()
        kill_marked(f"{TOKEN}={self._token}".encode())
        os.close(self._tickets)

    @property
    def pids(self) -> list[int]:
        return [worker.process.pid for worker in self.workers if worker.alive]

    def resize(self, size: int, threads: int) -> None:
        """Start what is missing, all anew where the number of threads changes; return when all have loaded.

        Raises Mistake for a wrong entry point and StartFailed for a service that does not load.
        """
        if threads != self.threads:
            self._dismiss(self.workers)
            self.threads = threads
        self._dismiss([worker for worker in self.workers if not worker.alive])
        while len(self.workers) < size:
            worker = WorkerProcess(self._job, self._count, threads, self._tickets, self._folder, self._token)
            self._count += 1
            self.workers.append(worker)
        self._await_loaded()

    def _dismiss(self, workers: list[WorkerProcess]) -> None:
        for worker in list(workers):
            worker.stop()
            worker.release()
            self.workers.remove(worker)

    def _await_loaded(self) -> None:
        """The clock of each start runs while any worker makes progress: many starts share few cores."""
        heard = time.monotonic()
        while waiting := [worker for worker in self.workers if not worker.loaded]:
            if self._listen(waiting):
                heard = time.monotonic()
            for worker in waiting:
                if not worker.loaded and not worker.alive:
                    worker.receive()
                    if not worker.loaded:
                        raise StartFailed(f"the process {worker.epitaph()} while it loaded the service", worker.stderr)
                if worker.loaded.get("kind") == "mistake":
                    raise Mistake(worker.loaded["text"])
                if worker.loaded.get("kind") == "broken":
                    raise StartFailed(f"loading raised {worker.loaded['error']}", worker.loaded["traceback"])
            if time.monotonic() - heard > self._job.start_limit_s:
                stack = waiting[0].stop(dump_stack=True)
                raise StartFailed(f"loading took longer than {self._job.start_limit_s:g} s", stack)

    def _listen(self, workers: list[WorkerProcess]) -> bool:
        with selectors.DefaultSelector() as selector:
            for worker in workers:
                selector.register(worker.inbox, selectors.EVENT_READ, worker)
            ready = selector.select(_TICK_S)
            for key, _ in ready:
                key.data.receive()
        return any(worker.loaded or worker.answer for worker in workers)

    def write_tickets(self, tickets: bytes) -> None:
        """The schedule all workers read from; its offset is theirs together."""
        os.ftruncate(self._tickets, 0)
        os.pwrite(self._tickets, tickets, 0)
        os.lseek(self._tickets, 0, os.SEEK_SET)

    def run(
        self, command: dict[str, Any], rows: int, give_up_ns: int
    ) -> tuple[list[Path], list[Sighting], list[Casualty]]:
        """Run one phase on all workers. A worker that dies, or hangs on a query, does not stop the others."""
        at_work = [worker for worker in self.workers if worker.alive]
        for worker in at_work:
            worker.record = self._folder / f"phase-{command['phase']:03}-worker-{worker.number:02}.rec"
            records.create(worker.record, rows)
            worker.send(command | {"record": str(worker.record)})
        paths = [worker.record for worker in at_work]
        sightings: list[Sighting] = []
        casualties: list[Casualty] = []
        waiting = list(at_work)
        while waiting:
            self._listen(waiting)
            for worker in list(waiting):
                if worker.answer:
                    waiting.remove(worker)
                    continue
                casualty = self._examined(worker, command, give_up_ns, sightings)
                if casualty is not None:
                    casualties.append(casualty)
                    waiting.remove(worker)
        return paths, sightings, casualties

    def _examined(
        self, worker: WorkerProcess, command: dict[str, Any], give_up_ns: int, sightings: list[Sighting]
    ) -> Casualty | None:
        """Look at a working worker: note its memory, and bury it where it is dead or hangs."""
        begun, flying, started = records.progress(worker.record)
        now = time.perf_counter_ns()
        limit = self._job.query_timeout_s
        workers, name = len(self.workers), command["set"]
        if not worker.alive:
            worker.receive()
            return None if worker.answer else Casualty(workers, worker.epitaph(), flying, name, "", worker.stderr)
        if flying >= 0 and now - started > limit * 1e9:
            told = f"had no answer after {limit:g} s and was stopped"
            return Casualty(workers, told, flying, name, worker.stop(dump_stack=True), worker.stderr)
        if now > give_up_ns + limit * 1e9:
            told = "did not end its phase and was stopped"
            return Casualty(workers, told, flying, name, worker.stop(dump_stack=True), worker.stderr)
        with suppress(ProcessLookupError):
            seen = resident(worker.process.pid)
            sightings.append(Sighting(worker.number, (now - command["begin"]) / 1e9, begun, *seen))
        return None

    def survey(self, name: str, rows: int, seconds: float) -> tuple[Samples, list[Casualty]]:
        """Each query of a set in shuffled passes on the first worker; its answer stays in `worker.answer`."""
        begin = time.perf_counter_ns()
        until = begin + int(seconds * 1e9)
        command = {"do": "survey", "set": name, "phase": 0, "begin": begin, "until": until, "each_once": True}
        paths, _, casualties = self.run(command, rows, until)
        return records.read(paths), casualties

    def answers(self, name: str, queries: int) -> list[dict[str, Any]]:
        """Label and score, or the error, of each query of a set, from the first worker."""
        worker = self.workers[0]
        worker.send({"do": "answer", "set": name, "phase": 0})
        until = time.monotonic() + self._job.query_timeout_s * max(10, queries)
        while not worker.answer:
            self._listen([worker])
            if not worker.alive and not worker.answer:
                raise StartFailed(f"the process {worker.epitaph()} while it answered {name} queries", worker.stderr)
            if time.monotonic() > until:
                raise StartFailed(f"the {name} queries had no answers in time", worker.stop(dump_stack=True))
        return list(worker.answer["answers"])
