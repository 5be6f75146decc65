"""Numbers against their limits, in few lines: what is handed over with the model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, limit_table
from mlcheck.core.outcome import Outcome
from mlcheck.load.binomial import Interval
from mlcheck.load.percentiles import Decision

_BY_OUTCOME = {Outcome.PASS: Decision.KEPT, Outcome.FAIL: Decision.BROKEN}
WORDS = {Decision.KEPT: "kept", Decision.BROKEN: "BROKEN", Decision.OPEN: "undecided"}


class Held(NamedTuple):
    """One number held against one limit. `size` orders those of one limit; `workers` 0 where there are none."""

    limit: str
    allowed: str
    measured: str
    decision: Decision
    size: float = 0.0
    workers: int = 0


def reaches(found: Interval, least: float) -> Decision:
    """Whether the whole interval lies at `least` or above."""
    if found.high < least:
        return Decision.BROKEN
    return Decision.KEPT if found.low >= least else Decision.OPEN


def beside_its_limit(verdict: Verdict, limit: str, allowed: str, measured: str) -> Verdict:
    """A verdict about one number, with the line that holds it against its limit."""
    held = Held(limit, allowed, measured, _BY_OUTCOME.get(verdict.outcome, Decision.OPEN))
    return replace(verdict, figures=(*held_against_limits([held]), *verdict.figures))


def held_against_limits(numbers: Iterable[Held]) -> tuple[Figure, ...]:
    """A line for each limit and decision, with the worst number of those alike and all their workers; or nothing."""
    alike: dict[tuple[str, Decision], list[Held]] = {}
    measured: dict[str, list[int]] = {}
    for number in numbers:
        alike.setdefault((number.limit, number.decision), []).append(number)
        measured.setdefault(number.limit, []).append(number.workers)
    rows = []
    for group in alike.values():
        worst = max(group, key=lambda one: one.size)
        counts = _counts([one.workers for one in group if one.workers], measured[worst.limit])
        rows.append([worst.limit, worst.allowed, worst.measured, counts, WORDS[worst.decision]])
    return (limit_table(rows),) if rows else ()


def _counts(some: list[int], every: list[int]) -> str:
    """Numbers of workers; three and more without a gap as `1 to 16`."""
    if len(some) > 2 and some == [one for one in every if some[0] <= one <= some[-1]]:
        return f"{some[0]} to {some[-1]}"
    return ", ".join(map(str, some))
