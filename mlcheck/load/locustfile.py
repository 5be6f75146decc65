"""What Locust runs: users who ask when queries are due, and keep every timestamp. Only Locust imports this file.

Locust itself starts users, spreads them over processes and machines, and holds their connections. Its own
statistics round to buckets and count from when a request was sent, so they are not used.
"""

from __future__ import annotations

import json
import os
import time
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gevent
from locust import FastHttpUser, constant, events, task
from locust.env import Environment
from locust.runners import MasterRunner, WorkerRunner

from mlcheck.load.arrivals import arrivals
from mlcheck.load.records import ANSWERED, FAILED

PLAN = "MLCHECK_LOCUST_PLAN"
_LEAD_NS = 300_000_000
_CHUNK = 5_000


class Session:
    """One process of Locust's: its share of the arrivals, and what became of them.

    `rows` are six numbers a query, as in a record, with times from this process's own beginning.
    """

    def __init__(self, plan: dict[str, Any], part: int, parts: int) -> None:
        self.bodies = [body.encode("utf-8", errors="surrogatepass") for body in plan["bodies"]]
        self.rows = array("q")
        self.errors: dict[str, dict[str, Any]] = {}
        self.begin = 0
        offsets, numbers = arrivals(plan["rate"], plan["seconds"], len(self.bodies), plan["seed"], plan["each_once"])
        pairs = list(zip(offsets.tolist(), numbers.tolist(), strict=True))
        self._tickets: Iterator[tuple[int, int]] = iter(pairs[part::parts])

    def next(self) -> tuple[int, int] | None:
        return next(self._tickets, None) if self.begin else None

    def note(self, number: int, due: int, free: int, start: int, end: int, error: str) -> None:
        times = (moment - self.begin for moment in (due, free, start, end))
        self.rows.extend((number, *times, FAILED if error else ANSWERED))
        if error:
            known = self.errors.setdefault(
                error.partition(":")[0], {"error": error, "query": number, "count": 0, "traceback": ""}
            )
            known["count"] += 1

    def told(self) -> Iterator[dict[str, Any]]:
        """What happened, in messages of a size that a network likes."""
        for first in range(0, len(self.rows), 6 * _CHUNK):
            yield {"rows": self.rows[first : first + 6 * _CHUNK].tobytes().hex(), "errors": []}
        yield {"rows": "", "errors": list(self.errors.values())}


class Asker(FastHttpUser):
    """Takes the next query that is due, waits until it is, and asks it."""

    wait_time = constant(0)

    @task
    def ask(self) -> None:
        session: Session | None = getattr(self.environment, "mlcheck", None)
        ticket = session.next() if session else None
        if session is None or ticket is None:
            gevent.sleep(0.05)
            return
        due, number = session.begin + ticket[0], ticket[1]
        free = time.perf_counter_ns()
        if due > free:
            gevent.sleep((due - free) / 1e9)
        start = time.perf_counter_ns()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        with self.client.post("", data=session.bodies[number], headers=headers, catch_response=True) as response:
            end = time.perf_counter_ns()
            status = response.status_code
            error = f"HTTPError: {status}" if status >= 400 else ""
            if not status:
                error = f"{type(response.error).__name__}: {response.error}"[:300]
            response.success()
        session.note(number, due, free, start, end, error)


def listen() -> None:
    """Take part in Locust's events, on every node: they hand over more arguments than are needed here."""

    @events.init.add_listener
    def prepare(environment: Environment, **_: Any) -> None:
        runner = environment.runner
        if isinstance(runner, WorkerRunner):
            runner.register_message("mlcheck-plan", lambda msg, **_: _adopt(environment, msg.data))
        elif isinstance(runner, MasterRunner):
            runner.register_message("mlcheck-samples", lambda msg, **_: _store(msg.data))

        def begin(**_: Any) -> None:
            """The first query is due when all users are there."""
            session: Session | None = getattr(environment, "mlcheck", None)
            if session is not None and not session.begin:
                session.begin = time.perf_counter_ns() + _LEAD_NS

        environment.events.spawning_complete.add_listener(begin)

    @events.test_start.add_listener
    def announce(environment: Environment, **_: Any) -> None:
        """The plan is in a file of the master's, who sends it to workers on other machines."""
        runner = environment.runner
        if isinstance(runner, MasterRunner):
            runner.send_message("mlcheck-plan", _plan() | {"parts": len(runner.clients)})
        elif not isinstance(runner, WorkerRunner):
            environment.mlcheck = Session(_plan(), 0, 1)

    @events.test_stop.add_listener
    def hand_over(environment: Environment, **_: Any) -> None:
        session: Session | None = getattr(environment, "mlcheck", None)
        if session is None:
            return
        for data in session.told():
            if isinstance(environment.runner, WorkerRunner):
                environment.runner.send_message("mlcheck-samples", data)
            else:
                _store(data)


def _plan() -> dict[str, Any]:
    plan: dict[str, Any] = json.loads(Path(os.environ[PLAN]).read_text(encoding="utf-8"))
    return plan


def _adopt(environment: Environment, plan: dict[str, Any]) -> None:
    runner = environment.runner
    assert isinstance(runner, WorkerRunner)
    environment.mlcheck = Session(plan, runner.worker_index, plan["parts"])


def _store(data: dict[str, Any]) -> None:
    """A line of the file that the parent reads."""
    with open(_plan()["samples"], "a", encoding="utf-8") as file:
        file.write(json.dumps(data) + "\n")


listen()
