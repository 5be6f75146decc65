"""Findings as GitLab's code quality report: https://docs.gitlab.com/ci/testing/code_quality/#code-quality-report-format"""

from __future__ import annotations

import json

from mlcheck.core.report import Report
from mlcheck.report.alarms import Alarm, alarms, broken
from mlcheck.report.excerpt import Sources, source_lines
from mlcheck.report.safe import visible

_SEVERITY = {"error": "critical", "warning": "major", "note": "info"}


def render(report: Report, root: str = ".", code: Sources = source_lines) -> str:
    """A JSON array; paths relative to `root`. Fingerprints stay while lines move, so that GitLab can compare.

    GitLab shows nothing without a file: a finding that has none, and a check that broke, stand at the root.
    """
    entries = [_entry(alarm) for alarm in alarms(report, root, code) if not alarm.waived]
    for result in broken(report):
        told = f"mlcheck: {result.rule} broke: {result.reason}"
        entries.append(_issue(told, result.rule, f"broken-{result.rule}-{result.by.value}", "blocker", ".", 1))
    return json.dumps(entries, indent=1) + "\n"


def _entry(alarm: Alarm) -> dict[str, object]:
    place = alarm.location
    told = f"{alarm.finding.message} ({alarm.finding.help})" if alarm.finding.help else alarm.finding.message
    return _issue(
        told, alarm.result.rule, alarm.fingerprint, _SEVERITY[alarm.level], place.path or ".", max(place.line, 1)
    )


def _issue(told: str, rule: str, fingerprint: str, severity: str, path: str, line: int) -> dict[str, object]:
    return {
        "description": visible(told),
        "check_name": rule,
        "fingerprint": fingerprint,
        "severity": severity,
        "location": {"path": path, "lines": {"begin": line}},
    }
