"""Pictures of a learning-rate range: where the loss ends at each rate, and how it goes there."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from mlcheck.core.finding import Figure
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.rate_trials import RateTrial, RateTrials


def rate_range(seen: RateTrials) -> Figure:
    """One point a rate, over the same batches from the same start; a rate that diverges has a mark and no point."""
    fine = sorted((trial for trial in seen.trials if trial.losses and not trial.diverged), key=lambda one: one.factor)
    third = max(1, min((len(trial.losses) for trial in fine), default=1) // 3)
    x, y = [seen.rate * trial.factor for trial in fine], [trial.tail(third) for trial in fine]
    broken = [seen.rate * trial.factor for trial in seen.trials if trial.diverged]
    marks = [{"name": f"{rate:g} diverges", "x": rate} for rate in broken[:1] if rate != seen.rate]
    marks.append({"name": f"yours, {seen.rate:g}{' (diverges)' if seen.rate in broken else ''}", "x": seen.rate})
    start = next((trial.losses[0] for trial in seen.trials if trial.losses), 0.0)
    data: dict[str, Any] = {
        "series": [{"name": "loss", "x": [*x, *broken], "y": [*y, *(None for _ in broken)]}],
        "lines": [{"name": "at the start", "y": start}],
        "marks": marks,
        "x_label": "learning rate",
        "y_label": "loss",
        "log_x": True,
        "log_y": start > 0 and all(value > 0 for value in y),
    }
    return Figure("curves", f"the loss after {plural(seen.steps, 'step')} at each learning rate", data)


def rate_curves(rate: float, trials: Iterable[RateTrial]) -> Figure:
    """The loss at each step, a curve for each rate; `rate` is the user's."""
    shown = sorted((trial for trial in trials if trial.losses), key=lambda trial: trial.factor)
    series = [
        {"name": f"{rate * trial.factor:g}{' (yours)' if trial.factor == 1 else ''}", "y": list(trial.losses)}
        for trial in shown
    ]
    positive = all(0 < value < math.inf for trial in shown for value in trial.losses)
    return Figure(
        "curves",
        "the same batches at other learning rates",
        {"series": series, "x_label": "step", "y_label": "loss", "log_y": positive},
    )
