"""Judges what people prefer, from their blind side-by-side judgements."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.binomial import judgements_needed
from mlcheck.load.handover import Held, held_against_limits
from mlcheck.load.limits import Limits
from mlcheck.load.percentiles import Decision
from mlcheck.load.sbs import Judgements, Preference, preference

_BIASED = 0.01


def check(found: Judgements, limits: Limits) -> Verdict:
    seen, alpha = preference(found), limits.sbs.alpha
    judged = seen.wins + seen.losses + seen.ties + seen.both_bad
    summary = (
        f"{plural(seen.wins, 'win')}, {plural(seen.losses, 'loss')}, {plural(seen.ties, 'tie')}, "
        f"{seen.both_bad} both bad of {judged} items "
        f"({found.items - judged} not judged): {seen.rate.value:.1%} [{seen.rate.low:.1%}, {seen.rate.high:.1%}] won, "
        f"sign test p = {seen.p_value:.3g}"
    )
    numbers, bars = _numbers(seen), _bars(seen)
    decision = Decision.OPEN
    if seen.p_value <= alpha and seen.left_p > _BIASED:
        decision = Decision.KEPT if seen.wins > seen.losses else Decision.BROKEN
    held = Held(
        "side by side", f"more wins, p <= {alpha:g}", f"{seen.rate.value:.1%} won, p = {seen.p_value:.2g}", decision
    )
    figures = (*held_against_limits([held]), bars)
    if seen.left_p <= _BIASED:
        reason = f"raters prefer a side: {seen.left} left, {seen.right} right (p = {seen.left_p:.2g})"
        return Verdict(Outcome.INCONCLUSIVE, summary, reason, (), figures, numbers, judged)
    if seen.p_value <= alpha and seen.wins > seen.losses:
        return Verdict(Outcome.PASS, summary, "", (), figures, numbers, judged)
    if seen.p_value <= alpha:
        finding = Finding(f"people prefer the live version: {seen.losses} times against {seen.wins}")
        return Verdict(Outcome.FAIL, summary, "", (finding,), figures, numbers, judged)
    return Verdict(Outcome.INCONCLUSIVE, summary, _needed(seen, alpha), (), figures, numbers, judged)


def _needed(seen: Preference, alpha: float) -> str:
    decided = seen.wins + seen.losses
    try:
        needed = judgements_needed(seen.rate.value, alpha)
    except ValueError:
        return "no preference is to be seen, and none will be with a few judgements more"
    if needed <= decided:
        return "not significant, though as many judgements find this win rate four times of five: judge some more"
    return f"not significant; if the win rate is as seen, some {needed - decided:,} more wins and losses would show it"


def _numbers(seen: Preference) -> dict[str, float]:
    numbers = {"win rate with half ties": seen.half, "raters": float(seen.raters), "left bias p": seen.left_p}
    return numbers | ({"agreement (Fleiss' kappa)": seen.agreement} if seen.agreement is not None else {})


def _bars(seen: Preference) -> Figure:
    labels = ["new wins", "tie", "both bad", "live wins"]
    values = [seen.wins, seen.ties, seen.both_bad, seen.losses]
    return Figure("bars", "Side by side", {"labels": labels, "values": values, "unit": "items"})
