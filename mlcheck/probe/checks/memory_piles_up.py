"""Judges whether what a pass leaves in memory adds up."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Figure, Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.training.piles import STEP, Pile, Piles


def check(seen: Piles) -> Verdict:
    judged = [
        pile for pile in seen.piles if pile.is_of_hooks or pile.phase == "evaluation" or pile.unread or pile.endless
    ]
    if not judged:
        if seen.piles:
            held = ", ".join(f"`{pile.name}`" for pile in seen.piles[:3])
            reason = f"{held} holds more after every round of training, as a buffer that fills does at first"
            return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.looked_at)
        told = "no list, dict or attribute holds more tensors after every epoch and validation"
        if seen.round == STEP:
            told = "no module has more hooks after every step"
        return Verdict(Outcome.PASS, f"{told} ({seen.looked_at} looked at)", looked_at=seen.looked_at)
    findings = tuple(_finding(pile, seen) for pile in judged)
    series = [{"name": pile.name, "y": [float(held) for held in pile.held]} for pile in judged[:4]]
    figure = Figure("curves", "what is held after each round", {"series": series, "x_label": "round"})
    return Verdict(Outcome.WARN, findings[0].message, findings=findings, figures=(figure,), looked_at=seen.looked_at)


def _finding(pile: Pile, seen: Piles) -> Finding:
    numbers = {"first": float(pile.held[0]), "last": float(pile.held[-1])}
    if pile.is_of_hooks:
        message = (
            f"`{pile.name}` has {plural(pile.growth, 'hook')} more after every {seen.round}: each step is slower than "
            "the one before"
        )
        return Finding(message, seen.place, help="register hooks once, or remove() their handles", numbers=numbers)
    what = "training" if pile.unread or pile.endless else "validation"
    unread = "no step reads it, and " if pile.unread else "steps add to it however long it is, " if pile.endless else ""
    message = (
        f"`{pile.name}` holds {pile.growth:,} numbers more after every {what} on the same batches: {unread}nothing "
        "clears it, and memory grows as long as the run lasts"
    )
    help_ = "keep sums and counts, or clear it when a pass begins; results of earlier ones are in it, too"
    return Finding(message, seen.place, help=help_, numbers=numbers)
