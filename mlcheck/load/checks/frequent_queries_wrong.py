"""Judges accuracy over the traffic, where a query counts as often as it is asked, beside that of different ones."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.load.binomial import Interval
from mlcheck.load.handover import Held, held_against_limits, reaches
from mlcheck.load.limits import Limits
from mlcheck.load.quality import Labelled, LabelledRun, accuracy, unique, weighted_accuracy
from mlcheck.load.wording import percent

_FEW = 100
_SHOWN = 10


def check(run: LabelledRun, limits: Limits) -> Verdict:
    once = unique(run.items)
    if len(once) == len(run.items) and all(item.frequency == 1.0 for item in run.items):
        return Verdict(Outcome.SKIP, reason="no labelled query has a `frequency` and none comes twice")
    flat, weighted = accuracy(once), weighted_accuracy(run.items)
    limit = limits.quality.weighted_accuracy_min
    summary = (
        f"weighted by frequency {percent(weighted.rate)} right, each query once {percent(flat)}; "
        f"{len(once):,} different of {len(run.items):,}, worth {weighted.effective:.0f} equal ones"
    )
    figures, looked_at = (*_held(weighted.rate, limit), _wrong(run.items)), len(run.items)
    apart = weighted.rate.high < flat.low
    if limit is not None and weighted.rate.high < limit:
        finding = Finding(f"of the traffic {weighted.rate.value:.2%} is answered right, below {limit:.2%}")
        return Verdict(Outcome.FAIL, summary, findings=(finding,), figures=figures, looked_at=looked_at)
    if apart:
        finding = Finding("frequent queries are answered worse than rare ones: the intervals do not meet")
        return Verdict(Outcome.WARN, summary, findings=(finding,), figures=figures, looked_at=looked_at)
    if limit is None:
        reason = "measured, but no limit is stated to judge it by: set weighted_accuracy_min in [quality]"
        return Verdict(Outcome.INCONCLUSIVE, summary, reason, figures=figures, looked_at=looked_at)
    if weighted.rate.low < limit:
        few = f": a few queries carry the traffic ({weighted.effective:.0f})" if weighted.effective < _FEW else ""
        reason = f"{limit:.2%} lies inside the interval{few}; label more of the frequent queries"
        return Verdict(Outcome.INCONCLUSIVE, summary, reason, figures=figures, looked_at=looked_at)
    return Verdict(Outcome.PASS, summary, figures=figures, looked_at=looked_at)


def _held(rate: Interval, limit: float | None) -> tuple[Figure, ...]:
    if limit is None:
        return ()
    allowed = f">= {limit:.2%}"
    return held_against_limits([Held("traffic accuracy", allowed, percent(rate), reaches(rate, limit))])


def _wrong(items: tuple[Labelled, ...]) -> Figure:
    wrong = sorted((item for item in items if not item.right), key=lambda item: -item.frequency)[:_SHOWN]
    rows = [[item.name, item.frequency, str(item.label), item.error or str(item.predicted)] for item in wrong]
    columns = ["query", "frequency", "label", "answer"]
    return Figure("table", "The most frequent queries that are answered wrong", {"columns": columns, "rows": rows})
