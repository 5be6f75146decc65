"""Findings as workflow commands: GitHub Actions shows each beside its line.

https://docs.github.com/actions/reference/workflow-commands-for-github-actions
"""

from __future__ import annotations

from mlcheck.core.finding import Location
from mlcheck.core.report import Report
from mlcheck.report.alarms import Alarm, alarms, broken
from mlcheck.report.excerpt import Sources, source_lines
from mlcheck.report.safe import visible

_COMMAND = {"error": "error", "warning": "warning", "note": "notice"}


def render(report: Report, root: str = ".", code: Sources = source_lines) -> str:
    """One line a finding, paths relative to `root`; nothing in a message can begin another command."""
    lines = [_annotation(alarm) for alarm in alarms(report, root, code) if not alarm.waived]
    lines += [f"::error title=mlcheck::{_data(f'{result.rule} broke: {result.reason}')}" for result in broken(report)]
    return "".join(f"{line}\n" for line in lines)


def _annotation(alarm: Alarm) -> str:
    properties = {**_place(alarm.location), "title": f"mlcheck: {alarm.result.rule}"}
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    finding = alarm.finding
    message = "\n".join(part for part in (finding.message, finding.help and f"help: {finding.help}") if part)
    return f"::{_COMMAND[alarm.level]} {told}::{_data(message)}"


def _place(place: Location) -> dict[str, str]:
    """Columns are allowed only where the finding begins and ends on one line."""
    told: dict[str, str] = {"file": place.path} if place.path else {}
    if place.path and place.line:
        end = max(place.line, place.end_line)
        told |= {"line": str(place.line), "endLine": str(end)}
        if place.column and end == place.line:
            told |= {"col": str(place.column), "endColumn": str(max(place.column, place.end_column))}
    return told


def _data(text: str) -> str:
    escaped = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return visible(escaped)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
