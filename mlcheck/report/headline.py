"""The first line of a report: the verdict, and the cause that accounts for most of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlcheck.core.causes import Cause
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.core.report import Item
from mlcheck.report.digest import ALARMS, counts, evidence, short_place, words


@dataclass(frozen=True, slots=True)
class Headline:
    """The first line of a report. `rule`, `place` and `symptoms` are empty unless something is wrong.

    `suspect` is a rule that only warns, and that what is told may come of.
    """

    outcome: Outcome
    sentence: str
    rule: str = ""
    place: str = ""
    symptoms: tuple[Item, ...] = ()
    sure: bool = True
    suspect: str = ""

    @property
    def explains(self) -> str:
        """`it explains 2 other failures`, `signal-explodes may explain it`, or nothing."""
        if self.suspect:
            return f"{self.suspect} may explain it"
        if not self.symptoms:
            return ""
        warnings = sum(item.outcome is Outcome.WARN for item in self.symptoms)
        failures = len(self.symptoms) - warnings
        told = [plural(failures, "other failure")] if failures else []
        told += [plural(warnings, "warning" if failures else "other warning")] if warnings else []
        return f"it {'explains' if self.sure else 'may explain'} {' and '.join(told)}"


def headline(checklist: Sequence[Item], found: Sequence[Cause]) -> Headline:
    """The verdict and the cause that accounts for most of it; without an alarm, what is open and what was seen."""
    counted = counts(checklist)
    if found:
        cause, symptoms = found[0].item, found[0].symptoms
        first = min((cause, *symptoms), key=lambda item: ALARMS.index(item.outcome))
        decided, suspect = first.decided, "" if first is cause else cause.decided.rule
        sure = first.outcome is not Outcome.WARN
        return Headline(first.outcome, evidence(decided), decided.rule, short_place(decided), symptoms, sure, suspect)
    if Outcome.PENDING not in counted and Outcome.INCONCLUSIVE not in counted and Outcome.PASS not in counted:
        return Headline(Outcome.SKIP, f"nothing was checked: {_rest(counted) or 'there was no rule to answer'}")
    gravest = next(one for one in (Outcome.PENDING, Outcome.INCONCLUSIVE, Outcome.PASS) if one in counted)
    told = "; ".join(part for part in (_waiting(counted), _undecided(counted), _good(counted)) if part)
    return Headline(gravest, told)


def _waiting(counted: dict[Outcome, int]) -> str:
    waiting = counted.get(Outcome.PENDING, 0)
    if not waiting:
        return ""
    return f"{plural(waiting, 'question')} {'waits' if waiting == 1 else 'wait'} for a person's sign-off"


def _undecided(counted: dict[Outcome, int]) -> str:
    """Of the questions that a program can answer and that this program raises, how many stay open."""
    undecided = counted.get(Outcome.INCONCLUSIVE, 0)
    asked = undecided + counted.get(Outcome.PASS, 0)
    return f"{undecided} of {plural(asked, 'question')} could not be decided" if undecided else ""


def _good(counted: dict[Outcome, int]) -> str:
    """`nothing failed` is said only where something passed."""
    return f"nothing failed: {_rest(counted)}" if Outcome.PASS in counted else _rest(counted)


def _rest(counted: dict[Outcome, int]) -> str:
    """What needs no attention, the most welcome first."""
    calm = (Outcome.PASS, Outcome.WAIVED, Outcome.SKIP)
    return ", ".join(f"{counted[outcome]} {words(outcome)}" for outcome in calm if outcome in counted)
