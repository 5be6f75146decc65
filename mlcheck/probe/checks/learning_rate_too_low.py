"""Judges the user's learning rate against ten and a hundred times it, from the same start."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.rate_range import rate_curves
from mlcheck.probe.measure.training.rate_trials import RateTrials

LITTLE = 0.05
MUCH = 0.02
FAR = 100.0
RISEN = 1.01
MOVED = 0.01  # an update of a thousandth of its weight is usual, and forty of them would be four times this


def check(seen: RateTrials) -> Verdict:
    mine = seen.of(1.0)
    if mine.diverged or len(mine.losses) < 9:
        return Verdict(Outcome.SKIP, reason="the loss diverges: the learning rate is not too low")
    third = max(3, len(mine.losses) // 3)
    start = mine.losses[0]
    still = min(seen.lower, key=lambda trial: trial.factor, default=mine).tail(third)
    higher = [trial for trial in seen.higher if len(trial.losses) == len(mine.losses)]
    best = min(higher, key=lambda trial: trial.tail(third), default=None)
    numbers = {"learning rate": seen.rate}
    gain = still - mine.tail(third)
    if best is None:
        if seen.raised:
            return Verdict(Outcome.INCONCLUSIVE, reason=seen.raised)
        return Verdict(
            Outcome.PASS, f"ten times {seen.rate:g} diverges: it is not too low", numbers=numbers, looked_at=seen.steps
        )
    best_gain = still - best.tail(third)
    much = f"{gain:.3g} lower" if gain > 0 else "no lower"
    told = (
        f"in {plural(seen.steps, 'step')} the loss gets {much} at {seen.rate:g} than with next to no step at all, "
        f"{best_gain:.3g} lower at {seen.rate * best.factor:g}"
    )
    if mine.moved > MOVED:
        told += f"; the weights moved by {100 * mine.moved:.2g} % of their length"
    within_reach = best.factor < FAR  # many sound runs start on a plateau that ten times their rate leaves sooner
    if mine.moved > MOVED or within_reach or best_gain < MUCH * abs(start) or gain > LITTLE * best_gain:
        return Verdict(Outcome.PASS, told, numbers=numbers, looked_at=seen.steps)  # learning-rate-too-high draws it
    if mine.asked > RISEN * seen.rate:
        reason = f"{told}; but your loop itself raises it to {mine.asked:g} meanwhile, and it is held still for this"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, numbers=numbers, looked_at=seen.steps)
    figures = (rate_curves(seen.rate, (trial for trial in seen.trials if not trial.diverged)),)
    message = f"your learning rate ({seen.rate:g}) hardly moves the model: {told}"
    finding = Finding(
        message,
        help=f"raise it to about {seen.rate * best.factor:g}",
        numbers={**numbers, "better": seen.rate * best.factor},
    )
    return Verdict(Outcome.WARN, message, findings=(finding,), figures=figures, numbers=numbers, looked_at=seen.steps)
