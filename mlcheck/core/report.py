"""Results, the checklist items they add up to, and the report that holds them. Plain data, saved as JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlcheck.core.dataclasses import dataclass, field
from mlcheck.core.finding import Figure, Finding, Location
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import By, Outcome, Severity, Stage

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What one check came to, with the evidence for it.

    `summary` is the one-line evidence with its numbers, present for a PASS too; `reason` says why a
    check was skipped, inconclusive or waived; `traceback` is the user's own for a crash in their code.
    `explains` names the rules whose failure this one would cause. `options` are the numbers set for this rule.
    `apart`: it was read in files that the probed program did not run, so that nothing seen of that overrules it.
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
    options: dict[str, float] = field(default_factory=dict)
    apart: bool = False

    @property
    def headline(self) -> str:
        """The sentence to show first: the first finding, else the evidence, or why nothing was decided."""
        if self.findings:
            return self.findings[0].message
        said = (self.summary, self.reason) if self.outcome.decides else (self.reason, self.summary)
        return said[0] or said[1]


WEIGHT = (
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


_RANK = {Outcome.ERROR: 1, Outcome.PENDING: 2, Outcome.INCONCLUSIVE: 3, Outcome.SKIP: 4, Outcome.WAIVED: 5}
_WAIVABLE = {Outcome.FAIL, Outcome.WARN, Outcome.PENDING}


def _precedence(result: Result) -> tuple[int, int, int, int]:
    """What decided, by strength of evidence, the graver of two equals; then what is still open."""
    strength = By.PROBE.strength if result.apart else result.by.strength
    return _RANK.get(result.outcome, 0), -strength, WEIGHT.index(result.outcome), -result.by.strength


def _decided_first(rivals: list[Result]) -> list[Result]:
    """A waiver stands in front only of what it waives: a rule that passes without it shows PASS."""
    ranked = sorted(rivals, key=_precedence)
    waivers = [result for result in ranked if result.outcome is Outcome.WAIVED]
    if waivers and ranked[0].outcome in _WAIVABLE:
        return waivers + [result for result in ranked if result.outcome is not Outcome.WAIVED]
    return ranked


def items(results: Iterable[Result]) -> list[Item]:
    """Join the results of each rule into one item: failures first, then by stage, then by name.

    Seen (probe, load) beats read (lint) beats said (sign-off), but for what was read where nothing was seen; what was
    overruled stays beneath.
    """
    by_rule: dict[str, list[Result]] = {}
    for result in results:
        by_rule.setdefault(result.rule, []).append(result)
    joined = []
    for rivals in by_rule.values():
        decided, *overruled = _decided_first(rivals)
        joined.append(Item(decided, tuple(overruled)))
    stages = list(Stage)
    joined.sort(key=lambda item: (WEIGHT.index(item.outcome), stages.index(item.decided.stage), item.decided.rule))
    return joined


@dataclass(frozen=True, slots=True)
class Change:
    """What became of a rule since an earlier run: `new`, `fixed`, `waived`, `gone` (not decided now) or `still` there.

    `came` and `went` count the findings of a rule that is still there.
    """

    kind: str
    rule: str
    said: str
    came: int = 0
    went: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """One run of mlcheck over one subject. `started` is ISO 8601 with its time zone.

    `arguments` are what followed `mlcheck probe`, so that a question can be asked again: the entry point, `--config`.
    `changes` are those since the run that started at `since`, which is empty where there was none to compare with.
    `step_seconds` is what one training step took, 0 where none was timed: the measure of what the probes cost.
    `ran` are the user's files that the probed program ran.
    """

    command: str
    subject: str
    results: tuple[Result, ...]
    environment: dict[str, str] = field(default_factory=dict)
    started: str = ""
    seconds: float = 0.0
    notices: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    since: str = ""
    changes: tuple[Change, ...] = ()
    step_seconds: float = 0.0
    ran: tuple[str, ...] = ()

    def items(self) -> list[Item]:
        return items(self.results)

    @property
    def probe_seconds(self) -> float:
        """What all probes took together."""
        return sum(result.seconds for result in self.results if result.by is By.PROBE)

    def steps(self, seconds: float) -> float:
        """So many training steps take as long; 0 where no step was timed."""
        return round(seconds / self.step_seconds, 1) if self.step_seconds > 0 else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON. Findings repeat their rule and severity, so that each can be read on its own.

        What a probe cost is told in training steps as well, and what all of them cost together.
        """
        from dataclasses import asdict

        data = asdict(self) | {"probe_steps": self.steps(self.probe_seconds)}
        for result in data["results"]:
            result["steps"] = self.steps(result["seconds"]) if result["by"] == By.PROBE else 0.0
            for finding in result["findings"]:
                finding |= {"rule": result["rule"], "severity": result["severity"]}
        return {"schema": SCHEMA_VERSION, **data}


class UnreadableReport(Mistake):
    """A saved report that this version cannot read; the message says why and what to do."""


def report_from_dict(data: Any) -> Report:
    """The report `Report.to_dict` wrote. Raises UnreadableReport on anything else."""
    if not isinstance(data, dict) or "schema" not in data:
        raise UnreadableReport("this is not a saved mlcheck report: it has no `schema` field")
    if data["schema"] != SCHEMA_VERSION:
        raise UnreadableReport(
            f"the report has schema {data['schema']!r} and this version reads {SCHEMA_VERSION}: run mlcheck again"
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
            arguments=tuple(data.get("arguments", ())),
            since=data.get("since", ""),
            changes=tuple(Change(**change) for change in data.get("changes", ())),
            step_seconds=data.get("step_seconds", 0.0),
            ran=tuple(data.get("ran", ())),
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
        options=dict(data.get("options", {})),
        apart=data.get("apart", False),
    )


def _finding_from_dict(data: dict[str, Any]) -> Finding:
    return Finding(
        message=data["message"],
        location=Location(**data["location"]),
        help=data["help"],
        numbers=dict(data["numbers"]),
        related=tuple(Location(**place) for place in data["related"]),
        fingerprint=data.get("fingerprint", ""),
    )
