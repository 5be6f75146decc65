"""What the harness itself costs: its loop against a bare one, in CPU time, pair by pair."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mlcheck.load import records
from mlcheck.load.loops import TICKET, closed_loop, open_loop, ticket_reader

_QUERIES = 2000
_FAR_NS = 1 << 62


def overhead_us(pairs: int = 40) -> float:
    """Microseconds of CPU a query that the closed loop adds: the median over pairs of loops over a small call."""
    spent: list[int] = []
    with tempfile.TemporaryDirectory(prefix="mlcheck-") as folder:
        path = Path(folder) / "record"

        def ours() -> None:
            records.create(path, _QUERIES)
            record = records.Record(path)
            begun = time.thread_time_ns()
            closed_loop(_small, _CALLS, _ORDER, record, _FAR_NS, _ignored)
            spent.append(time.thread_time_ns() - begun)
            record.close()

        return _paired(ours, spent, pairs)


def dispatch_us(pairs: int = 10) -> float:
    """The same for the open loop, with every query due at once: the cost of taking a ticket is in it."""
    tickets = TICKET.pack(0, 0)
    spent: list[int] = []
    with tempfile.TemporaryDirectory(prefix="mlcheck-") as folder:
        path, file = Path(folder) / "record", Path(folder) / "tickets"
        file.write_bytes(tickets * _QUERIES)

        def ours() -> None:
            records.create(path, _QUERIES + 1)
            record = records.Record(path)
            descriptor = os.open(file, os.O_RDONLY)
            reader = ticket_reader(descriptor)
            begun = time.thread_time_ns()
            open_loop(_small, _CALLS, reader, record, 0, _FAR_NS, _ignored)
            spent.append(time.thread_time_ns() - begun)
            os.close(descriptor)
            record.close()

        return _paired(ours, spent, pairs)


_CALLS = list(range(16))
_ORDER = [number % 16 for number in range(_QUERIES)]


def _paired(ours: Callable[[], None], spent: list[int], pairs: int) -> float:
    differences = []
    for _ in range(pairs):
        begun = time.thread_time_ns()
        for number in _ORDER:
            _small(_CALLS[number])
        bare = time.thread_time_ns() - begun
        ours()
        differences.append((spent[-1] - bare) / _QUERIES / 1000)
    return sorted(differences)[len(differences) // 2]


def _small(query: Any) -> Any:
    return query


def _ignored(_: int, error: BaseException) -> None:
    raise error
