"""What the engine said of each rule, summed up into one result a rule."""

from __future__ import annotations

from mlcheck.core.catalog import Catalog
from mlcheck.core.dataclasses import dataclass, field, replace
from mlcheck.core.finding import Finding
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.outcome import SEVERITY_OUTCOME, By, Outcome, Severity, Stage
from mlcheck.core.plural import plural
from mlcheck.core.report import Result


class Asked(NamedTuple):
    """A check, for those who only report on it: its rule, and what it judges (empty: files)."""

    rule: str
    looks_at: str


class Failure(NamedTuple):
    """mlcheck's own, in one rule or in all that follow a program."""

    reason: str
    traceback: str


@dataclass(slots=True)
class Answers:
    """Findings and mlcheck's own failures by rule; how many things of each kind were looked at.

    `known` says how many findings of a rule the baseline hides.
    """

    subject: str
    files: int
    findings: dict[str, list[Finding]] = field(default_factory=dict)
    failures: dict[str, list[Failure]] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    known: dict[str, int] = field(default_factory=dict)

    def result(self, check: Asked, catalog: Catalog) -> Result:
        """What the rule came to. Its page is not parsed."""
        heading = catalog.heading(check.rule)
        thing = check.looks_at or "Python file"
        result = Result(
            rule=check.rule,
            title=heading.title,
            stage=Stage(heading.stage),
            severity=Severity(heading.severity),
            by=By.LINT,
            outcome=Outcome.PASS,
            findings=tuple(sorted(self.findings.get(check.rule, ()), key=lambda finding: finding.location)),
            looked_at=self.seen.get(check.looks_at, 0) if check.looks_at else self.files,
        )
        if failures := self.failures.get(check.rule):
            first = failures[0]
            return replace(result, outcome=Outcome.ERROR, reason=first.reason, traceback=first.traceback)
        if result.findings:
            return replace(
                result,
                outcome=SEVERITY_OUTCOME[result.severity],
                summary=f"{plural(len(result.findings), 'finding')} in {plural(self.files, 'file')}",
                explains=catalog.explains(check.rule),
            )
        if known := self.known.get(check.rule):
            return replace(result, summary=f"nothing new; {plural(known, 'finding')} known in the baseline")
        if not result.looked_at:
            where = "this folder" if self.subject == "." else self.subject
            return replace(result, outcome=Outcome.SKIP, reason=f"no {thing} in {where}")
        return replace(result, summary=f"nothing found in {plural(result.looked_at, thing)}")
