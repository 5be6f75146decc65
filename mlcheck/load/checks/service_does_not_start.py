"""Judges whether the service loads and answers at all."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.load.start import Start


def check(start: Start) -> Verdict:
    if start.told:
        by_hand = f"is it running? ask it once by hand: `curl -d @query.json {start.url}`"
        help_ = by_hand if start.url else "run it once by hand: `python -c` with the import, then one query"
        finding = Finding(start.told, help=help_)
        return Verdict(Outcome.FAIL, start.told, findings=(finding,), looked_at=1, traceback=start.traceback)
    return Verdict(Outcome.PASS, "the service loads and answers its first query", looked_at=1)
