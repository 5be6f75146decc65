"""Judges the user's learning rate against ten and a hundred times it, from the same start."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.rate_range import rate_curves
from mlcheck.probe.measure.training.rate_trials import RateTrials
from mlcheck.probe.measure.training.slow_rate import MOVED, SlowRate, is_judged

RISEN = 1.01


def check(seen: RateTrials) -> Verdict:
    mine = seen.of(1.0)
    if not is_judged(mine):
        return Verdict(Outcome.SKIP, reason="the loss diverges: the learning rate is not too low")
    numbers = {"learning rate": seen.rate}
    slow = SlowRate.of(seen)
    if slow is None:
        if seen.raised:
            return Verdict(Outcome.INCONCLUSIVE, reason=seen.raised)
        return Verdict(
            Outcome.PASS, f"ten times {seen.rate:g} diverges: it is not too low", numbers=numbers, looked_at=seen.steps
        )
    much = f"{slow.gain:.3g} lower" if slow.gain > 0 else "no lower"
    told = (
        f"in {plural(seen.steps, 'step')} the loss gets {much} at {seen.rate:g} than with next to no step at all, "
        f"{slow.best_gain:.3g} lower at {seen.rate * slow.best.factor:g}"
    )
    if mine.moved > MOVED:
        told += f"; the weights moved by {100 * mine.moved:.2g} % of their length"
    if not slow.hardly_moves:
        return Verdict(Outcome.PASS, told, numbers=numbers, looked_at=seen.steps)  # learning-rate-too-high draws it
    if mine.asked > RISEN * seen.rate:
        reason = f"{told}; but your loop itself raises it to {mine.asked:g} meanwhile, and it is held still for this"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, numbers=numbers, looked_at=seen.steps)
    figures = (rate_curves(seen.rate, (trial for trial in seen.trials if not trial.diverged)),)
    message = f"your learning rate ({seen.rate:g}) hardly moves the model: {told}"
    finding = Finding(
        message,
        help=f"raise it to about {seen.rate * slow.best.factor:g}",
        numbers={**numbers, "better": seen.rate * slow.best.factor},
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), figures=figures, numbers=numbers, looked_at=seen.steps)
