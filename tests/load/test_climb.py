"""How the ladder is climbed, without a worker: when to stop, and what to say of threads."""

from __future__ import annotations

from typing import Any

import pytest
from load_phases import Memory, rung

from mlcheck.load import climb
from mlcheck.load.climb import Climb
from mlcheck.load.limits import Plan


class Crew:
    """Notes what it is asked for; its workers say that they use four threads."""

    def __init__(self) -> None:
        self.sizes: list[tuple[int, int]] = []
        self.workers: list[Any] = []

    def resize(self, size: int, threads: int) -> None:
        self.sizes.append((size, threads))
        loaded = {"threads": 4, "load_s": 0.1, "first_ms": 1.0}
        self.workers = [type("Worker", (), {"loaded": loaded})() for _ in range(size)]
        raise KeyboardInterrupt  # as far as this test goes


def climbing(plan: Plan, free_mb: float, monkeypatch: pytest.MonkeyPatch) -> tuple[Climb, Crew]:
    monkeypatch.setattr(climb, "usable_cores", lambda: 8.0)
    monkeypatch.setattr(climb, "free_memory", lambda: free_mb)
    crew = Crew()
    return Climb(crew, plan, {"random": 1}, 0), crew  # type: ignore[arg-type]


def test_workers_that_would_not_fit_into_memory_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    found, crew = climbing(Plan(), 3000.0, monkeypatch)
    found.rungs.append(rung(workers=2, memory=(Memory(1200, 1100, 1000), Memory(1200, 1100, 900))))
    found.rung(8)
    assert crew.sizes == []
    assert found.stopped == "8 workers would take 6,000 MB more, and 3,000 MB are free"


def test_workers_that_fit_are(monkeypatch: pytest.MonkeyPatch) -> None:
    found, crew = climbing(Plan(), 3000.0, monkeypatch)
    found.rungs.append(rung(workers=2, memory=(Memory(1200, 1100, 1000),)))
    with pytest.raises(KeyboardInterrupt):
        found.rung(4)
    assert crew.sizes == [(4, 2)]
    assert found.stopped == ""


@pytest.mark.parametrize(
    ("plan", "workers", "threads"), [(Plan(), 1, 8), (Plan(), 3, 2), (Plan(), 16, 1), (Plan(threads=5), 16, 5)]
)
def test_threads_are_the_cores_divided(plan: Plan, workers: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    found, crew = climbing(plan, 1e9, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        found.rung(workers)
    assert crew.sizes == [(workers, threads)]
