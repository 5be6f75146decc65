"""Cases without statistics: golden ones, and those every service must stand. One failure is a failure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from mlcheck.core.cores import usable_cores
from mlcheck.core.mistake import Mistake
from mlcheck.load.crew import StartFailed
from mlcheck.load.limits import Cases
from mlcheck.load.queries import Query
from mlcheck.trial.child import child_command
from mlcheck.trial.isolate import ChildEnd, End, run_child

_START_UP_S = 300.0


@dataclass(frozen=True, slots=True)
class Case:
    """One case: what went wrong in a sentence, or nothing; `note` is what happened in any event."""

    name: str
    source: str
    told: str
    note: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class GoldenRun:
    """Every must-pass case, each in a process of its own."""

    cases: tuple[Case, ...]


@dataclass(slots=True)
class Conduct:
    """How one process behaves: modes, repetition, batches, broken queries. Reasons stand where nothing was seen."""

    environment: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    module_calls: int = 0
    training: list[str] = field(default_factory=list)
    graph: str = ""
    repeatable: bool = True
    repeated: list[Case] = field(default_factory=list)
    batch: list[Case] = field(default_factory=list)
    batch_skipped: str = ""
    broken: list[Case] = field(default_factory=list)


def run_golden(
    entry: str, path: Path, cases: list[Query], timeout_s: float, folder: str, show: Callable[[str, int, int], None]
) -> GoldenRun:
    """Each case in a fresh process, as many at once as there are cores."""
    done: list[Case] = []

    def one(number: int) -> Case:
        case = _golden_case(entry, path, cases[number], number, timeout_s, folder)
        done.append(case)
        show("golden cases", len(done), len(cases))
        return case

    with ThreadPoolExecutor(max_workers=max(1, min(4, int(usable_cores())))) as pool:
        try:
            return GoldenRun(tuple(pool.map(one, range(len(cases)))))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            _end_children()
            raise


def _end_children() -> None:
    """Whoever interrupts does not wait for cases that are still running."""
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if "mlcheck.load.case_worker" in " ".join(child.cmdline()):
                child.kill()


def _golden_case(entry: str, path: Path, case: Query, number: int, timeout_s: float, folder: str) -> Case:
    heard: list[dict[str, Any]] = []
    job = {
        "do": "golden",
        "entry": entry,
        "path": os.path.relpath(path, folder),
        "number": number,
        "timeout_s": timeout_s,
    }
    end = _child(job, _START_UP_S, folder, heard.append)
    message = heard[-1] if heard else {}
    if message.get("kind") == "mistake":
        raise Mistake(message["text"])
    if message.get("kind") == "broken":
        return Case(case.name, case.source, f"loading raised {message['error']}", traceback=message["traceback"])
    if message.get("kind") != "golden":
        return Case(case.name, case.source, str(end), traceback=end.stack or end.stderr[-2000:])
    return Case(case.name, case.source, message["told"], traceback=message["traceback"])


def run_conduct(entry: str, path: Path | None, cases: Cases, timeout_s: float, folder: str) -> Conduct:
    """Load the service once and try it. A broken query that ends the process is a finding, and the rest goes on.

    Raises Mistake for a wrong entry point, StartFailed where the service does not load or answer at all.
    """
    conduct = Conduct(repeatable=cases.repeatable)
    while True:
        listener = _Listener(conduct)
        job = {
            "do": "conduct",
            "entry": entry,
            "path": os.path.relpath(path, folder) if path else "",
            "rtol": cases.rtol,
            "atol": cases.atol,
            "repeatable": cases.repeatable,
            "ignore": cases.ignore,
            "timeout_s": timeout_s,
            "done": [case.name for case in conduct.broken],
            "deadly": [case.name for case in conduct.repeated if case.traceback],
        }
        end = _child(job, _START_UP_S, folder, listener.hear)
        if end.how is End.FINISHED:
            return conduct
        trace = end.stack or end.stderr[-2000:] or str(end)
        if listener.asked:
            conduct.repeated.append(Case(listener.asked, "", str(end), traceback=trace))
        elif listener.current:
            conduct.broken.append(Case(listener.current, "", str(end), traceback=trace))
        else:
            raise StartFailed(f"while it was loaded and answered its first query {end}", trace)


class _Listener:
    """Notes what the child tells. `asked` is the good query it is busy with, `current` the broken one."""

    def __init__(self, conduct: Conduct) -> None:
        self.asked = self.current = ""
        self._conduct = conduct

    def hear(self, message: dict[str, Any]) -> None:
        kind, conduct = message["kind"], self._conduct
        if kind == "mistake":
            raise Mistake(message["text"])
        if kind == "broken":
            raise StartFailed(f"loading or the first query raised {message['error']}", message["traceback"])
        if kind == "loaded":
            conduct.environment, conduct.notices = message["environment"], message["notices"]
        elif kind == "modes":
            conduct.module_calls, conduct.training = message["calls"], message["training"]
            conduct.graph = message["graph"]
        elif kind == "asking":
            self.asked = message["query"]
        elif kind == "repeated":
            self.asked = ""
            deadly = [case for case in conduct.repeated if case.traceback]
            conduct.repeated = deadly + [Case(name, "", told) for name, told in message["cases"]]
        elif kind == "batch":
            conduct.batch = [Case(name, "", told) for name, told in message["cases"]]
            conduct.batch_skipped = message["skipped"]
        elif kind == "began":
            self.current = message["case"]
        elif kind == "ended":
            conduct.broken.append(Case(message["case"], "", message["after"], message["told"]))
            self.current = ""


def _child(job: dict[str, Any], limit_s: float, folder: str, hear: Callable[[dict[str, Any]], None]) -> ChildEnd:
    argv = child_command("mlcheck.load.case_worker", json.dumps(job))
    return run_child(argv, time_limit_s=limit_s, cwd=folder, on_message=hear)
