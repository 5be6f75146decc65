"""Judges how satisfied people are with the answers of the new version against those of the live one."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.limits import Limits
from mlcheck.load.satisfaction import Ratings, mean_difference, wilcoxon


def check(ratings: Ratings, limits: Limits) -> Verdict:
    found, margin = mean_difference(ratings.differences), limits.sbs.satisfaction_margin
    n = len(ratings.differences)
    summary = (
        f"mean score {ratings.new:.3g} new, {ratings.live:.3g} live: {found.value:+.3g} [{found.low:+.3g}, "
        f"{found.high:+.3g}] over {plural(n, 'item')} (Wilcoxon's p = {wilcoxon(ratings.differences):.3g})"
    )
    figures = (_bars(ratings),)
    if found.high < -margin:
        message = f"people are less satisfied: {-found.value:.3g} points fewer than with the live version"
        return Verdict(Outcome.FAIL, summary, findings=(Finding(message),), figures=figures, looked_at=n)
    if found.low >= -margin:
        return Verdict(Outcome.PASS, summary, figures=figures, looked_at=n)
    reason = f"it may have fallen by more than the margin of {margin:g}: rate more items"
    return Verdict(Outcome.INCONCLUSIVE, summary, reason, figures=figures, looked_at=n)


def _bars(ratings: Ratings) -> Figure:
    better = sum(difference > 0 for difference in ratings.differences)
    worse = sum(difference < 0 for difference in ratings.differences)
    values = [better, len(ratings.differences) - better - worse, worse]
    return Figure("bars", "Satisfaction", {"labels": ["better", "equal", "worse"], "values": values, "unit": "items"})
