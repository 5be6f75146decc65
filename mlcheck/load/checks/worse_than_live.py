"""Judges the new model against the live one on the same queries."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.handover import beside_its_limit
from mlcheck.load.limits import Limits
from mlcheck.load.quality import Labelled, LabelledRun, against_live, unique
from mlcheck.load.wording import percent

_SHOWN = 10
_NOT_ASKED = "no labelled query says what the `live` model answers, and no --live model was asked"


def check(run: LabelledRun, limits: Limits) -> Verdict:
    items = unique(run.compared)
    if not items:
        return Verdict(Outcome.SKIP, reason=run.live_silent or _NOT_ASKED)
    paired, margin = against_live(items), limits.quality.non_inferiority_margin
    low, high = paired.difference.low, paired.difference.high
    summary = (
        f"against the live model {paired.difference.value:+.2%} [{low:+.2%}, {high:+.2%}] on "
        f"{plural(paired.n, 'query')}: "
        f"{paired.gained} gained, {paired.lost} lost (McNemar's p = {paired.p_value:.3g})"
    )
    figures = (_lost(items),)

    def held(verdict: Verdict) -> Verdict:
        allowed = f">= {-margin:+.2%}"
        return beside_its_limit(verdict, "accuracy over live", allowed, percent(paired.difference))

    if high < -margin or (paired.p_value <= 0.05 and paired.lost > paired.gained and low <= -margin):
        message = (
            f"the live model is right on {plural(paired.lost, 'query')} that this one gets wrong, and "
            f"wrong on {paired.gained}"
        )
        finding = Finding(message)
        return held(Verdict(Outcome.FAIL, summary, findings=(finding,), figures=figures, looked_at=paired.n))
    if low <= -margin:
        reason = f"it may be worse by more than the margin of {margin:.2%}: label more queries"
        return held(Verdict(Outcome.INCONCLUSIVE, summary, reason, figures=figures, looked_at=paired.n))
    return held(Verdict(Outcome.PASS, summary, figures=figures, looked_at=paired.n))


def _lost(items: list[Labelled]) -> Figure:
    lost = [item for item in items if not item.right and item.live == item.label][:_SHOWN]
    rows = [[item.name, str(item.label), item.error or str(item.predicted), str(item.live)] for item in lost]
    columns = ["query", "label", "new", "live"]
    return Figure("table", "Queries that only the live model gets right", {"columns": columns, "rows": rows})
