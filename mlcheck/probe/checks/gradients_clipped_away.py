"""Judges whether clipping only cuts peaks or takes nearly the whole gradient, at every step."""

from __future__ import annotations

import math
import statistics

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.scale_free import SCALE_FREE
from mlcheck.probe.measure.training.rate_trials import RateTrials
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.measure.training.slow_rate import SlowRate, is_judged
from mlcheck.probe.measure.training.update_watch import Update

ABSURD = 1000.0
MUCH = 30.0
SCALERS = {2.0**power for power in range(1, 33)}
EPSILON = 1e-6
_STUCK = "; the model hardly moves at this learning rate, and learns at one that makes up for it"


def check(run: ShortRun, rates: RateTrials | None) -> Verdict:
    updates = [u for u in run.updates if u.norm > 0 and math.isfinite(u.norm) and math.isfinite(u.raw) and u.raw > 0]
    if not run.updates and run.backwards:
        return Verdict(Outcome.SKIP, reason="no optimizer stepped: there is no gradient as applied")
    if len(updates) < 5:
        return Verdict(Outcome.INCONCLUSIVE, reason=f"{plural(len(updates), 'update')} made: too few to judge")
    cuts = [update.raw / update.norm for update in updates]
    clipped = [u for u, cut in zip(updates, cuts) if cut > 1.001 and not _unscaled(cut)]
    if not clipped:
        return Verdict(
            Outcome.PASS, f"no gradient was clipped in {plural(len(updates), 'update')}", looked_at=len(updates)
        )
    share, cut = len(clipped) / len(updates), statistics.median(u.raw / u.norm for u in clipped)
    numbers = {"share clipped": share, "divided by": cut, "norm": statistics.median(u.norm for u in clipped)}
    stuck = cut >= MUCH and _hardly_moves(rates)
    if share < 0.95 or (cut < ABSURD and not stuck) or _is_harmless(clipped):
        told = f"{100 * share:.0f} % of {plural(len(updates), 'update')} are clipped, by a median factor of {cut:.3g}"
        return Verdict(Outcome.PASS, told, numbers=numbers, looked_at=len(updates))
    message = (
        f"clipping leaves 1/{cut:.3g} of every gradient: norm {numbers['norm']:.3g} where backward gave "
        f"{cut * numbers['norm']:.3g}, in {100 * share:.0f} % of {plural(len(updates), 'update')}"
        f"{_STUCK if stuck else ''}"
    )
    help_ = "clip at a norm that only outliers reach; 1.0 is common"
    finding = Finding(message, run.backward_place, help=help_, numbers=numbers)
    return Verdict(
        Outcome.WARN, message, findings=(finding,), figures=(_figure(updates),), numbers=numbers, looked_at=len(updates)
    )


def _hardly_moves(rates: RateTrials | None) -> bool:
    """Whether the model stays where it is at this learning rate and learns at one that makes up for the clipping."""
    slow = SlowRate.of(rates) if rates and is_judged(rates.of(1.0)) else None
    return slow is not None and slow.hardly_moves


def _is_harmless(clipped: list[Update]) -> bool:
    """Whether the optimizer divides by the gradient's own size, and that is not as small as what keeps it from 0."""
    return all(u.optimizer in SCALE_FREE for u in clipped) and any(u.norm >= EPSILON for u in clipped)


def _unscaled(cut: float) -> bool:
    """A power of two, exactly: what a gradient scaler divides by before the step."""
    return cut in SCALERS or any(abs(cut / scale - 1) < 1e-6 for scale in SCALERS)


def _figure(updates: list[Update]) -> Figure:
    series = [
        {"name": "after backward", "y": [u.raw for u in updates]},
        {"name": "as applied", "y": [u.norm for u in updates]},
    ]
    return Figure("curves", "gradient norms", {"series": series, "x_label": "update", "y_label": "norm", "log_y": True})
