"""Phases and ladders made of numbers, for judges that must not need a clock."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlcheck.load.crew import Casualty, Sighting
from mlcheck.load.ladder import COMPLEX, RANDOM, Ladder, Phase, Rung
from mlcheck.load.limits import Plan
from mlcheck.load.machine import Memory
from mlcheck.load.records import ANSWERED, FAILED, Samples
from mlcheck.load.survey import Survey

S = 1_000_000_000


def samples(latency_ms: np.ndarray, rate: float = 100.0, failed: int = 0) -> Samples:
    """Queries due at a steady rate, each begun when due."""
    n = len(latency_ms)
    due = (np.arange(n) / rate * S).astype(np.int64)
    zero = np.zeros(n, dtype=np.int64)
    status = np.where(np.arange(n) < failed, FAILED, ANSWERED).astype(np.int64)
    return Samples(zero, zero, due, due, due, due + (latency_ms * 1e6).astype(np.int64), status)


def phase(
    latency_ms: np.ndarray,
    *,
    workers: int = 1,
    kind: str = "open",
    queries: str = RANDOM,
    rate: float = 100.0,
    failed: int = 0,
    **given: Any,
) -> Phase:
    taken = samples(latency_ms, rate, failed)
    planned = (taken.due, taken.query) if kind == "open" else None
    end = int(taken.end.max()) + S if len(taken) else S
    fields: dict[str, Any] = {"cores": 8.0, "planned": planned, "waited": 0.0, "foreign": 0.0} | given
    return Phase(workers, 1, kind, queries, rate, 0, end, samples=taken, **fields)


def ladder(*rungs: Rung, plan: Plan | None = None, cores: float = 8.0, stopped: str = "") -> Ladder:
    names = {RANDOM: ("first", "second"), COMPLEX: ("worst",)}
    return Ladder(rungs, names, plan or Plan(), cores, stopped=stopped)


def rung(*phases: Phase, workers: int = 1, memory: tuple[Memory, ...] = ()) -> Rung:
    return Rung(workers, 1, ((0.1, 2.0),) * workers, phases, memory)


def closed(capacity: float, workers: int = 1, queries: str = RANDOM, **given: Any) -> Phase:
    """A capacity phase in which so many queries a second are answered, one after the other."""
    return phase(np.full(200, 1000 / capacity), workers=workers, kind="closed", queries=queries, rate=capacity, **given)


def leaking(mb_per_1k: float, queries: int = 2000, looks: int = 60, start: float = 50.0) -> tuple[Sighting, ...]:
    places = np.linspace(0, queries, looks).astype(int).tolist()
    return tuple(Sighting(0, n * 0.1, q, start, start + mb_per_1k * q / 1000) for n, q in enumerate(places))


def survey(**given: Any) -> Survey:
    fields: dict[str, Any] = {
        "names": ("first", "second"),
        "median_ms": (2.0, 9.0),
        "slowest_ms": (3.0, 12.0),
        "failing": {},
        "not_finite": {},
        "errors": (),
        "passes": 7.0,
        "first_query_ms": 40.0,
        "load_s": 1.0,
    }
    return Survey(**(fields | given))


__all__ = ["Casualty", "Memory", "closed", "ladder", "leaking", "phase", "rung", "samples", "survey"]
