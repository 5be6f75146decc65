"""What the engine said of each rule, summed up into one result a rule."""

from __future__ import annotations

from mlcheck.core.catalog import Catalog
from mlcheck.core.dataclasses import dataclass, field
from mlcheck.core.finding import Finding
from mlcheck.core.named_tuples import NamedTuple
from mlcheck.core.outcome import SEVERITY_OUTCOME, By, Outcome
from mlcheck.core.plural import plural
from mlcheck.core.report import Result

_FILE = "Python file"


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
        found = self.findings.get(check.rule)
        findings = tuple(sorted(found, key=lambda finding: finding.location)) if found else ()
        looked_at = self.seen.get(check.looks_at, 0) if check.looks_at else self.files
        outcome, summary, reason, traceback = Outcome.PASS, "", "", ""
        if failures := self.failures.get(check.rule):
            outcome, (reason, traceback) = Outcome.ERROR, failures[0]
        elif findings:
            outcome = SEVERITY_OUTCOME[heading.severity]
            summary = f"{plural(len(findings), 'finding')} in {plural(self.files, 'file')}"
        elif known := self.known.get(check.rule):
            summary = f"nothing new; {plural(known, 'finding')} known in the baseline"
        elif looked_at:
            summary = f"nothing found in {plural(looked_at, check.looks_at or _FILE)}"
        else:
            outcome = Outcome.SKIP
            reason = f"no {check.looks_at or _FILE} in {'this folder' if self.subject == '.' else self.subject}"
        return Result(
            rule=check.rule,
            title=heading.title,
            stage=heading.stage,
            severity=heading.severity,
            by=By.LINT,
            outcome=outcome,
            summary=summary,
            reason=reason,
            findings=findings,
            looked_at=looked_at,
            traceback=traceback,
            explains=catalog.explains(check.rule) if findings else (),
        )
