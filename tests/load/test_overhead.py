"""The harness's own cost, and that the measure of it can tell."""

from __future__ import annotations

import pytest

from mlcheck.load import overhead
from mlcheck.load.overhead import dispatch_us, overhead_us
from mlcheck.load.self_test import MOST_DISPATCH_US, MOST_OVERHEAD_US


def test_the_loops_cost_something_and_taking_a_ticket_more() -> None:
    closed, opened = overhead_us(pairs=15), dispatch_us(pairs=15)
    assert 0 < closed < opened
    assert closed <= MOST_OVERHEAD_US
    assert opened <= MOST_DISPATCH_US


def test_a_loop_that_does_more_is_seen_to_cost_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same loop, recording every query fifty times over in vain."""
    before = overhead_us(pairs=5)
    honest = overhead.closed_loop  # type: ignore[attr-defined]

    def wasteful(*arguments: object) -> object:
        sum(range(2_000 * 50))
        return honest(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(overhead, "closed_loop", wasteful)
    assert overhead_us(pairs=5) > before + 0.2
