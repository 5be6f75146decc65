"""Judges the user's learning rate against a tenth and a hundredth of it, from the same start."""

from __future__ import annotations

import math
from statistics import fmean

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.training.memorising import Curve
from mlcheck.probe.measure.training.overfit import Overfit
from mlcheck.probe.measure.training.rate_range import rate_curves, rate_range
from mlcheck.probe.measure.training.rate_trials import RateTrial, RateTrials
from mlcheck.probe.measure.training.short_run import ShortRun

HALF = 0.5
TIMES, PART = 4, 0.1
NEAR = 4.0
CHANCE = 1e-3
MODERATE = 100.0
ROUNDING = 1e-3


def check(seen: RateTrials, run: ShortRun | None, first: FirstLoss | None, memorised: Overfit | None = None) -> Verdict:
    mine = seen.of(1.0)
    if mine.diverged and run and run.source and run.source.largest < MODERATE:
        told = f"the loss is suddenly no number, where no weight and no output is larger than {run.source.largest:.3g}"
        return Verdict(Outcome.INCONCLUSIVE, reason=f"{told}: it did not grow beyond all bounds")
    if mine.plunged:
        told = (
            f"the loss falls from {mine.losses[0]:.3g} to {min(mine.losses):.3g} in {plural(len(mine.losses), 'step')}"
        )
        return Verdict(Outcome.INCONCLUSIVE, reason=f"{told}: what has no lower bound is no measure of a learning rate")
    lower = [trial for trial in seen.lower if len(trial.losses) >= 9]
    if not lower:
        if seen.raised:
            return Verdict(Outcome.INCONCLUSIVE, reason=seen.raised)
        return Verdict(Outcome.INCONCLUSIVE, reason="the loss diverges with a ten-thousandth of the learning rate, too")
    third = max(3, min(len(mine.losses), *(len(t.losses) for t in lower)) // 3)
    best = min(lower, key=lambda trial: trial.tail(third))
    start = mine.losses[0]
    gain_mine, gain_best = start - mine.tail(third), start - best.tail(third)
    numbers = {"learning rate": seen.rate, "better": seen.rate * best.factor}
    if gain_mine < 0 and _comes_down(mine, third):
        told = f"the loss rises from {start:.3g} to {max(mine.losses):.3g} and is down at {mine.losses[-1]:.3g} again"
        reason = f"{told}: {plural(seen.steps, 'step')} do not tell where it ends"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, figures=_figures(seen), looked_at=seen.steps)
    if mine.diverged or (gain_mine < 0 < gain_best and gain_best > 0.02 * abs(start)):
        what = "diverges" if mine.diverged else f"rises from {start:.3g} to {mine.tail(third):.3g}"
        message = (
            f"the loss {what} at your learning rate ({seen.rate:g}); over the same "
            f"{plural(seen.steps, 'batch')} it falls to "
            f"{best.tail(third):.3g} at {seen.rate * best.factor:g}"
        )
        return _verdict(Outcome.FAIL, seen, message, numbers)
    if message := _compared(seen, mine, best, third, _costs_of_a_guess(first)):
        return _verdict(Outcome.WARN, seen, message, numbers)
    if memorised and (fast := _learns_at_less(memorised)):
        message = (
            f"at your learning rate ({seen.rate:g}) the loss of one batch comes from {memorised.mine.values[0]:.3g} to "
            f"{memorised.mine.best:.3g} in {plural(memorised.mine.steps, 'step')}; Adam at {fast.learning_rate:g} "
            f"overfits it in {plural(fast.steps, 'step')} from the same start"
        )
        return _verdict(Outcome.WARN, seen, message, {"learning rate": seen.rate, "better": fast.learning_rate})
    return Verdict(
        Outcome.PASS,
        f"the loss falls at {seen.rate:g} to {mine.tail(third):.3g}, at {seen.rate * best.factor:g} to "
        f"{best.tail(third):.3g}",
        figures=_figures(seen),
        numbers={"learning rate": seen.rate},
        looked_at=seen.steps,
    )


def _compared(seen: RateTrials, mine: RateTrial, best: RateTrial, length: int, guess: float) -> str:
    """What a rate loses that falls, but not half as far, or not below what a guess costs; empty if neither."""
    start, ends, better = mine.losses[0], mine.tail(length), best.tail(length)
    gain = start - better
    little = gain > 0.02 * abs(start) and start - ends < HALF * gain
    above = ends > guess and better < HALF * guess
    if not (little or above) or _worse(mine, best, length) >= CHANCE:
        return ""
    more = "" if little else f", more than a guess without the input costs ({guess:.3g})"
    return (
        f"at your learning rate ({seen.rate:g}) the loss comes from {start:.3g} to {ends:.3g}{more}, at "
        f"{seen.rate * best.factor:g} to {better:.3g} over the same batches"
    )


def _learns_at_less(seen: Overfit) -> Curve | None:
    """The curve of Adam at a small part of the rate, where Adam at the program's own learns next to nothing."""
    fast = next((curve for curve in seen.adam if curve.reached(seen.goal)), None)
    if fast is None or not seen.comparable or not seen.whole or seen.scheduled or seen.mine.learning_rate_moved:
        return None
    slow = seen.mine.steps >= TIMES * fast.steps and not seen.manages(HALF)
    return fast if slow and fast.learning_rate <= PART * seen.mine.learning_rate else None


def _costs_of_a_guess(first: FirstLoss | None) -> float:
    """Of the one loss that backward is called on; infinite where there are more terms, or weights."""
    losses = first.losses if first else []
    if first is None or len(losses) != 1 or losses[0].weighted or not first.values:
        return math.inf
    whole = math.isclose(fmean(first.values), losses[0].value, rel_tol=ROUNDING)
    return losses[0].ignorant if whole and losses[0].ignorant > 0 else math.inf


def _comes_down(mine: RateTrial, length: int) -> bool:
    """Whether it halves over the last steps and is back near its start, as where a codebook has to move first."""
    edge = max(1, length // 4)
    before, after = mine.losses[-length : -length + edge], mine.losses[-edge:]
    return not mine.diverged and sum(after) < HALF * sum(before) and sum(after) < NEAR * edge * abs(mine.losses[0])


def _worse(mine: RateTrial, best: RateTrial, length: int) -> float:
    """Sign test over the last steps, paired by batch: how likely so many would be worse by chance."""
    pairs = list(zip(mine.losses[-length:], best.losses[-length:]))
    worse = sum(a > b for a, b in pairs)
    return float(sum(math.comb(len(pairs), k) for k in range(worse, len(pairs) + 1)) / 2 ** len(pairs))


def _verdict(outcome: Outcome, seen: RateTrials, message: str, numbers: dict[str, float]) -> Verdict:
    if seen.warms_up:
        reason = f"{message}; but your schedule begins lower and is held still for this"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, figures=_figures(seen), looked_at=seen.steps)
    finding = Finding(message, help=f"lower it to about {numbers['better']:.2g}, or warm it up", numbers=numbers)
    return Verdict(
        outcome,
        message,
        findings=(finding,),
        figures=_figures(seen),
        numbers=numbers,
        looked_at=seen.steps,
    )


def _figures(seen: RateTrials) -> tuple[Figure, ...]:
    return rate_range(seen), rate_curves(seen.rate, seen.trials)
