"""Which of many alarms accounts for the others."""

from __future__ import annotations

from collections.abc import Iterable

from mlcheck.core.dataclasses import dataclass
from mlcheck.core.outcome import Outcome, Severity
from mlcheck.core.report import WEIGHT, Item

_ALARMS = (Outcome.FAIL, Outcome.ERROR, Outcome.WARN)


@dataclass(frozen=True, slots=True)
class Cause:
    """A failed item that no other failure explains, with the failures it accounts for."""

    item: Item
    symptoms: tuple[Item, ...]


def causes(checklist: Iterable[Item]) -> list[Cause]:
    """Sort alarms into causes and symptoms: the group with the gravest alarm first, then the largest.

    A result names in `explains` the rules it would make fail, and so, by way of them, what they would.
    Alarms that explain one another explain nothing. What is left unexplained is a cause.
    A warning is not suspected of what a failure explains, be it one that somebody has accepted.
    """
    listed = {item.decided.rule: item for item in checklist}
    alarms = {rule: item for rule, item in listed.items() if item.outcome in _ALARMS}
    known = alarms | {rule: item for rule, item in listed.items() if _accepted(item)}
    reach = {rule: _explained_by(rule, known) for rule in known}
    explained = {
        rule: [other for other in alarms if other in reach[rule] and rule not in reach[other]] for rule in known
    }
    settled = {
        other for rule, others in explained.items() if known[rule].outcome is not Outcome.WARN for other in others
    }
    for rule, item in alarms.items():
        if item.outcome is Outcome.WARN:
            explained[rule] = [other for other in explained[rule] if other not in settled]
    symptoms = {other for rule in alarms for other in explained[rule]}
    found = [
        Cause(item, tuple(alarms[other] for other in explained[rule]))
        for rule, item in alarms.items()
        if rule not in symptoms
    ]
    return sorted(found, key=_urgency)


def _accepted(item: Item) -> bool:
    """Whether a failure was waived: it is no alarm, and is still the cause of others."""
    return item.outcome is Outcome.WAIVED and any(result.outcome is Outcome.FAIL for result in item.overruled)


def _explained_by(rule: str, known: dict[str, Item]) -> set[str]:
    reached: set[str] = set()
    waiting = [rule]
    while waiting:
        for other in known[waiting.pop()].decided.explains:
            if other in known and other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached


def _urgency(cause: Cause) -> tuple[int, int, int, int]:
    gravest = min(WEIGHT.index(item.outcome) for item in (cause.item, *cause.symptoms))
    severity = list(Severity).index(cause.item.decided.severity)
    return gravest, -len(cause.symptoms), WEIGHT.index(cause.item.outcome), severity
