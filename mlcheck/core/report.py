"""Results, the checklist items they add up to, and the report that holds them. Plain data, saved as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from mlcheck.core.finding import Figure, Finding, Location
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import By, Outcome, Severity, Stage

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What one check came to, with the evidence for it.

    `summary` is the one-line evidence with its numbers, present for a PASS too; `reason` says why a
    check was skipped, inconclusive or waived; `traceback` is the user's own for a crash in their code.
    `explains` names the rules whose failure this one would cause.
    """

    rule: str
    title: str
    stage: Stage
    severity: Severity
    by: By
    outcome: Outcome
    summary: str = ""
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    figures: tuple[Figure, ...] = ()
    numbers: dict[str, float] = field(default_factory=dict)
    looked_at: int = 0
    seconds: float = 0.0
    traceback: str = ""
    explains: tuple[str, ...] = ()

    @property
    def headline(self) -> str:
        """The sentence to show first: the first finding, or the evidence, or the reason there is none."""
        if self.findings:
            return self.findings[0].message
        return self.summary or self.reason


_WEIGHT = (
    Outcome.FAIL,
    Outcome.ERROR,
    Outcome.WARN,
    Outcome.PENDING,
    Outcome.INCONCLUSIVE,
    Outcome.WAIVED,
    Outcome.SKIP,
    Outcome.PASS,
)


@dataclass(frozen=True, slots=True)
class Item:
    """One line of the checklist: a rule, what decided it, and what was overruled."""

    decided: Result
    overruled: tuple[Result, ...] = ()

    @property
    def outcome(self) -> Outcome:
        return self.decided.outcome

    @property
    def results(self) -> tuple[Result, ...]:
        return (self.decided, *self.overruled)


def _precedence(result: Result) -> tuple[int, int, int]:
    """Waivers first, then what decided, by strength of evidence, and the graver of two equals."""
    waived = result.outcome is Outcome.WAIVED
    group = 0 if waived else 1 if result.outcome.decides else 2 if result.outcome is Outcome.ERROR else 3
    return group, -result.by.strength, _WEIGHT.index(result.outcome)


def items(results: Iterable[Result]) -> list[Item]:
    """Join the results of each rule into one item: failures first, then by stage, then by name.

    Seen (probe, load) beats read (lint) beats said (sign-off); what was overruled stays beneath.
    """
    by_rule: dict[str, list[Result]] = {}
    for result in results:
        by_rule.setdefault(result.rule, []).append(result)
    joined = []
    for rivals in by_rule.values():
        decided, *overruled = sorted(rivals, key=_precedence)
        joined.append(Item(decided, tuple(overruled)))
    stages = list(Stage)
    joined.sort(key=lambda item: (_WEIGHT.index(item.outcome), stages.index(item.decided.stage), item.decided.rule))
    return joined


@dataclass(frozen=True, slots=True)
class Cause:
    """A failed item that no other failure explains, with the failures it accounts for."""

    item: Item
    symptoms: tuple[Item, ...]


def causes(checklist: Iterable[Item]) -> list[Cause]:
    """Sort alarms into causes and symptoms; those that explain most come first among failures.

    A result names in `explains` the rules it would make fail. What is left unexplained is a cause.
    """
    alarms = [item for item in checklist if item.outcome in (Outcome.FAIL, Outcome.ERROR, Outcome.WARN)]
    explained: dict[str, list[Item]] = {item.decided.rule: [] for item in alarms}
    symptoms = set()
    for item in alarms:
        for other in alarms:
            mutual = item.decided.rule in other.decided.explains
            if other is not item and other.decided.rule in item.decided.explains and not mutual:
                explained[item.decided.rule].append(other)
                symptoms.add(other.decided.rule)
    found = [Cause(item, tuple(explained[item.decided.rule])) for item in alarms if item.decided.rule not in symptoms]
    severities = list(Severity)
    found.sort(
        key=lambda cause: (
            -len(cause.symptoms) if cause.item.outcome is not Outcome.ERROR else 0,
            _WEIGHT.index(cause.item.outcome),
            severities.index(cause.item.decided.severity),
        )
    )
    return found


@dataclass(frozen=True, slots=True)
class Report:
    """One run of mlcheck over one subject. `started` is ISO 8601 with its time zone."""

    command: str
    subject: str
    results: tuple[Result, ...]
    environment: dict[str, str] = field(default_factory=dict)
    started: str = ""
    seconds: float = 0.0
    notices: tuple[str, ...] = ()

    def items(self) -> list[Item]:
        return items(self.results)

    def to_dict(self) -> dict[str, Any]:
        return {"schema": SCHEMA_VERSION, **asdict(self)}


class UnreadableReport(Mistake):
    """A saved report that this version cannot read; the message says why and what to do."""


def report_from_dict(data: Any) -> Report:
    """The report `Report.to_dict` wrote. Raises UnreadableReport on anything else."""
    if not isinstance(data, dict) or "schema" not in data:
        raise UnreadableReport("this is not a saved mlcheck report: it has no `schema` field")
    if data["schema"] != SCHEMA_VERSION:
        raise UnreadableReport(
            f"the report was saved with schema {data['schema']!r}, this version reads {SCHEMA_VERSION}: run mlcheck again"
        )
    try:
        return Report(
            command=data["command"],
            subject=data["subject"],
            results=tuple(_result_from_dict(result) for result in data["results"]),
            environment=dict(data["environment"]),
            started=data["started"],
            seconds=data["seconds"],
            notices=tuple(data["notices"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableReport(f"the saved report is damaged at {error}: run mlcheck again") from error


def _result_from_dict(data: dict[str, Any]) -> Result:
    return Result(
        rule=data["rule"],
        title=data["title"],
        stage=Stage(data["stage"]),
        severity=Severity(data["severity"]),
        by=By(data["by"]),
        outcome=Outcome(data["outcome"]),
        summary=data["summary"],
        reason=data["reason"],
        findings=tuple(_finding_from_dict(finding) for finding in data["findings"]),
        figures=tuple(Figure(**figure) for figure in data["figures"]),
        numbers=dict(data["numbers"]),
        looked_at=data["looked_at"],
        seconds=data["seconds"],
        traceback=data["traceback"],
        explains=tuple(data["explains"]),
    )


def _finding_from_dict(data: dict[str, Any]) -> Finding:
    return Finding(
        message=data["message"],
        location=Location(**data["location"]),
        help=data["help"],
        numbers=dict(data["numbers"]),
        related=tuple(Location(**place) for place in data["related"]),
    )
