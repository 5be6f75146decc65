"""What a process and its workers did while something was measured: shares of time, from counters and from looks."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import active_children
from pathlib import Path
from typing import Self

from mlcheck.trial.child import HOME
from mlcheck.trial.observe.counters import Counters, added, of_machine, of_process, summed

_START = """
import sys
sys.path.insert(0, sys.argv[1])
from mlcheck.trial.observe.observer import watch
watch(int(sys.argv[2]), sys.argv[3])
"""
_UNTIL_READY_S = 5.0


@dataclass(frozen=True, slots=True)
class Activity:
    """What one process did, on the average of its kind: shares of the time watched.

    `user` and `system` work of all its threads (more than 1 on several cores), `main` that of the main thread,
    `delay` the time its main thread was ready and had no core (None where the system does not tell), `waits` how
    often its main thread was seen in which state (see `waits.kind_of_wait`), of all looks. `read` is bytes a second
    from a disk, `forced` and `given` are switches a second.
    """

    user: float = 0.0
    system: float = 0.0
    main: float = 0.0
    delay: float | None = None
    waits: dict[str, float] = field(default_factory=dict)
    read: float = 0.0
    forced: float = 0.0
    given: float = 0.0


@dataclass(frozen=True, slots=True)
class Phase:
    """Everything about one kind of phase: how long, on how many cores, what trainer and workers did.

    `others` is the share of the cores that no process of the program used; None where the system does not tell.
    `cpu_pressure` and `io_pressure` are the shares of time in which somebody waited for a core, or for a disk.
    """

    seconds: float
    cores: int
    trainer: Activity
    worker: Activity
    workers: int
    others: float | None = None
    cpu_pressure: float | None = None
    io_pressure: float | None = None


@dataclass(slots=True)
class _Span:
    name: str
    begin: float
    before: Counters
    own: dict[int, Counters]
    end: float = 0.0
    after: Counters = field(default_factory=dict)
    used: dict[int, Counters] = field(default_factory=dict)


class Watch:
    """Watches this process while entered; `phase(name)` marks what is measured, `phases()` tells it afterwards."""

    def __init__(self) -> None:
        self._spans: list[_Span] = []
        self._looks: list[tuple[float, dict[int, str]]] = []
        self._process: subprocess.Popen[bytes] | None = None
        self._folder = tempfile.TemporaryDirectory(prefix="mlcheck-watch-")
        self._file = Path(self._folder.name) / "looks"

    def __enter__(self) -> Self:
        if Path("/proc/self/stat").exists():
            command = [sys.executable, "-I", "-S", "-c", _START, HOME, str(os.getpid()), str(self._file)]
            with suppress(OSError):
                self._process = subprocess.Popen(  # noqa: S603 - mlcheck's own
                    command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=HOME
                )
                self._await_first_look()
        return self

    def _await_first_look(self) -> None:
        end = time.monotonic() + _UNTIL_READY_S
        while time.monotonic() < end and not (self._file.exists() and self._file.stat().st_size):
            time.sleep(0.01)

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            with suppress(OSError, subprocess.TimeoutExpired):
                self._process.communicate(timeout=_UNTIL_READY_S)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
        with suppress(OSError):
            self._looks = [look for line in self._file.read_text().splitlines() if (look := _look(line))]
        self._folder.cleanup()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Workers are the processes that live at both ends of it."""
        span = _Span(name, time.monotonic(), of_machine(), self._counted())
        yield
        after = self._counted()
        span.end, span.after = time.monotonic(), added(span.before, of_machine())
        span.used = {pid: added(span.own[pid], after[pid]) for pid in span.own.keys() & after.keys()}
        self._spans.append(span)

    @staticmethod
    def _counted() -> dict[int, Counters]:
        pids = [os.getpid(), *(child.pid for child in active_children() if child.pid is not None)]
        return {pid: counted for pid in pids if (counted := of_process(pid))}

    def phases(self) -> dict[str, Phase]:
        """By name, phases of the same name together. Empty where the system tells nothing of processes."""
        names = dict.fromkeys(span.name for span in self._spans if span.used)
        return {name: self._phase([span for span in self._spans if span.name == name]) for name in names}

    def _phase(self, spans: list[_Span]) -> Phase:
        seconds = sum(span.end - span.begin for span in spans)
        cores = len(os.sched_getaffinity(0))
        machine = summed([span.after for span in spans])
        looks = [seen for at, seen in self._looks if any(span.begin <= at <= span.end for span in spans)]
        own = summed([span.used.get(os.getpid(), {}) for span in spans])
        hired = {pid for span in spans for pid in span.used} - {os.getpid()}
        theirs = summed([span.used[pid] for span in spans for pid in span.used if pid in hired])
        workers = max(len(span.used.keys() & hired) for span in spans)
        worked = sum(part.get("user", 0.0) + part.get("system", 0.0) for part in (own, theirs))
        shares = {kind: machine[kind] / seconds for kind in ("cpu", "io") if kind in machine}
        return Phase(
            seconds=seconds,
            cores=cores,
            trainer=_activity(own, seconds, 1, [look.get(os.getpid(), "") for look in looks]),
            worker=_activity(theirs, seconds, workers, [look[pid] for look in looks for pid in look if pid in hired]),
            workers=workers,
            others=max(0.0, machine["busy"] - worked) / (seconds * cores) if "busy" in machine else None,
            cpu_pressure=shares.get("cpu"),
            io_pressure=shares.get("io"),
        )


def _activity(counted: Counters, seconds: float, processes: int, looks: list[str]) -> Activity:
    whole = max(seconds * processes, 1e-9)
    seen = Counter(look for look in looks if look)
    return Activity(
        user=counted.get("user", 0.0) / whole,
        system=counted.get("system", 0.0) / whole,
        main=counted.get("main", counted.get("user", 0.0) + counted.get("system", 0.0)) / whole,
        delay=counted["main_delay"] / whole if "main_delay" in counted else None,
        waits={kind: count / seen.total() for kind, count in seen.most_common()},
        read=counted.get("read", 0.0) / max(seconds, 1e-9),
        forced=counted.get("forced", 0.0) / whole,
        given=counted.get("given", 0.0) / whole,
    )


def _look(line: str) -> tuple[float, dict[int, str]] | None:
    at, *states = line.split()
    pairs = (state.partition("=") for state in states)
    return (float(at), {int(pid): kind for pid, _, kind in pairs}) if states else None
