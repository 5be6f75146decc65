"""Judges whether the search keeps the end of the metric that training leads to."""

from __future__ import annotations

import math

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.metric_names import best, tells_what_is_amiss
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.probe.measure.validation.searched import Searched

MUCH = 0.25
TWICE = 2.0


def check(seen: Searched, run: ShortRun | None) -> Verdict:
    kept = "smallest" if seen.smallest else "largest"
    setting = f"smaller_is_better is {str(seen.smallest).lower()}"
    wanted = best(seen.metric)
    if wanted and wanted != kept:
        message = f"the search keeps the {kept} `{seen.metric}`: {setting}"
    elif not wanted and seen.smallest and run and (rise := _rise(seen.metric, run)):
        message = f"{rise} while the training loss falls, and the search keeps the smallest: {setting}"
    elif not wanted and not seen.smallest and run and (fall := _fall(seen.metric, run)):
        message = f"{fall} while the training loss falls, and the search keeps the largest: {setting}"
    else:
        said = "as its name asks for" if wanted else "and nothing speaks against it"
        return Verdict(Outcome.PASS, f"the search keeps the {kept} `{seen.metric}`, {said}", looked_at=1)
    help_ = f"write `smaller_is_better: {str(not seen.smallest).lower()}` under `searcher`"
    outcome = Outcome.FAIL if wanted else Outcome.WARN
    return Verdict(outcome, message, findings=(Finding(message, seen.place, help=help_),), looked_at=1)


def _rise(metric: str, run: ShortRun) -> str:
    """How a share between 0 and 1 grew with training, on every validation batch; empty where it did not."""
    pairs = _before_and_after(metric, run)
    if not pairs or not all(0 <= value <= 1 for pair in pairs for value in pair):
        return ""
    start, end = (sum(values) / len(pairs) for values in zip(*pairs))
    if any(a <= b for b, a in pairs) or end - start < MUCH or end < TWICE * start:
        return ""
    return f"`{metric}` rises from {start:.3g} to {end:.3g} in {plural(run.steps, 'step')}"


def _fall(metric: str, run: ShortRun) -> str:
    """How an error was at least halved by training, on every validation batch; empty where it was not."""
    pairs = _before_and_after(metric, run) if tells_what_is_amiss(metric) else []
    if not pairs or not all(0 <= TWICE * after < before for before, after in pairs):
        return ""
    start, end = (sum(values) / len(pairs) for values in zip(*pairs))
    return f"`{metric}` falls from {start:.3g} to {end:.3g} in {plural(run.steps, 'step')}"


def _before_and_after(metric: str, run: ShortRun) -> list[tuple[float, float]]:
    """Its values on each validation batch before and after training; none where the training loss does not fall."""
    tenth = max(1, len(run.losses) // 10)
    falls = sum(run.losses[-tenth:]) < sum(run.losses[:tenth]) and all(map(math.isfinite, run.losses))
    if not falls or run.backwards > run.steps:
        return []
    return [(b[metric], a[metric]) for b, a in zip(run.before, run.after) if metric in b and metric in a]
