"""The harness tests itself: on a simulated clock the theory must hold, and a harness that hides a stall must show."""

from __future__ import annotations

import pytest

from mlcheck.load import self_test
from mlcheck.load.arrivals import arrivals
from mlcheck.load.loops import open_loop
from mlcheck.load.self_test import standstill

S = 1_000_000_000


class Clock:
    """Time that passes by sleeping, and a microsecond at each look."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        self.now += 1000
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += round(seconds * S)


@pytest.mark.parametrize("seed", range(5))
def test_a_stall_shows_as_theory_has_it(seed: int) -> None:
    clock = Clock()
    found = standstill(*arrivals(100, 10, 1, seed), 4 * S, S, clock, clock.sleep)
    assert found.p99 == pytest.approx(found.theory, rel=0.001)
    assert found.theory == pytest.approx(900, rel=0.12)  # ten of a thousand random arrivals: 100 ms, give or take 32
    assert found.from_sending < 1


def test_a_loop_that_times_from_sending_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Coordinated omission, on purpose: every query is said to be due when it is sent."""

    def late(predict, queries, next_ticket, record, *rest):  # type: ignore[no-untyped-def]
        open_loop(predict, queries, next_ticket, record, *rest)
        view = record.view
        for row in range(1, view[0] + 1):
            view[6 * row + 1] = view[6 * row + 3]

    monkeypatch.setattr(self_test, "open_loop", late)
    clock = Clock()
    found = standstill(*arrivals(100, 10, 1, 0), 4 * S, S, clock, clock.sleep)
    assert found.p99 < 1
    assert abs(found.off) > self_test.MOST_OFF


def test_each_trait_is_told_with_its_figure_and_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(self_test, "overhead_us", lambda: 2.5)
    monkeypatch.setattr(self_test, "dispatch_us", lambda: 1.0)
    shown: list[str] = []
    closed, opened, stall = self_test.self_test(shown.append, seconds=0.5)
    assert closed.told == "the closed loop adds 2.50 µs of CPU to a query (at most 2)"
    assert not closed.kept
    assert opened.kept
    assert "stands still for 0.05 s in 0.5 s at 100 queries a second: p99 is" in stall.told
    assert len(shown) == 3
