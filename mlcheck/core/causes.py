"""Which of many alarms accounts for the others."""

from __future__ import annotations

from collections.abc import Iterable

from mlcheck.core.dataclasses import dataclass
from mlcheck.core.outcome import Outcome, Severity
from mlcheck.core.report import WEIGHT, Item


@dataclass(frozen=True, slots=True)
class Cause:
    """A failed item that no other failure explains, with the failures it accounts for."""

    item: Item
    symptoms: tuple[Item, ...]


def causes(checklist: Iterable[Item]) -> list[Cause]:
    """Sort alarms into causes and symptoms: the group with the gravest alarm first, then the largest.

    A result names in `explains` the rules it would make fail, and so, by way of them, what they would.
    Alarms that explain one another explain nothing. What is left unexplained is a cause.
    """
    alarms = {
        item.decided.rule: item for item in checklist if item.outcome in (Outcome.FAIL, Outcome.ERROR, Outcome.WARN)
    }
    reach = {rule: _explained_by(rule, alarms) for rule in alarms}
    explained = {
        rule: [other for other in alarms if other in reach[rule] and rule not in reach[other]] for rule in alarms
    }
    symptoms = {other for others in explained.values() for other in others}
    found = [
        Cause(item, tuple(alarms[other] for other in explained[rule]))
        for rule, item in alarms.items()
        if rule not in symptoms
    ]
    return sorted(found, key=_urgency)


def _explained_by(rule: str, alarms: dict[str, Item]) -> set[str]:
    reached: set[str] = set()
    waiting = [rule]
    while waiting:
        for other in alarms[waiting.pop()].decided.explains:
            if other in alarms and other not in reached:
                reached.add(other)
                waiting.append(other)
    return reached


def _urgency(cause: Cause) -> tuple[int, int, int, int]:
    gravest = min(WEIGHT.index(item.outcome) for item in (cause.item, *cause.symptoms))
    severity = list(Severity).index(cause.item.decided.severity)
    return gravest, -len(cause.symptoms), WEIGHT.index(cause.item.outcome), severity
