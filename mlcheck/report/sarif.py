"""Findings as SARIF 2.1.0, in the form that GitHub code scanning accepts.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/ and
https://docs.github.com/code-security/code-scanning/integrating-with-code-scanning/sarif-support-for-code-scanning
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from mlcheck.core.catalog import Catalog
from mlcheck.core.finding import Location
from mlcheck.core.report import Report, Result
from mlcheck.core.rule import Rule
from mlcheck.report import page
from mlcheck.report.alarms import Alarm, alarms, below, broken
from mlcheck.report.excerpt import Sources, source_lines
from mlcheck.report.safe import visible

_SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
_PROBLEM = {"error": "error", "warning": "warning", "note": "recommendation"}
_MOST_RESULTS = 25_000
_MOST_TEXT = 1_000
_MOST_RELATED = 10


def render(report: Report, root: str = ".", code: Sources = source_lines) -> str:
    """One run. URIs are relative to `root`, which is the checkout's; columns count characters.

    What has no place in a file GitHub would refuse: it is a notification of the tool.
    """
    found = alarms(report, root, code)
    placed = [alarm for alarm in found if alarm.location.path][:_MOST_RESULTS]
    rules = sorted({alarm.result.rule: alarm.result for alarm in placed}.values(), key=lambda result: result.rule)
    position = {result.rule: number for number, result in enumerate(rules)}
    run = {
        "tool": {"driver": _driver(report, rules)},
        "automationDetails": {"id": f"mlcheck/{report.command}/"},
        "columnKind": "unicodeCodePoints",
        "invocations": [_invocation(report, [alarm for alarm in found if not alarm.location.path])],
        "results": [_result(alarm, position[alarm.result.rule], root) for alarm in placed],
    }
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=1) + "\n"


def _driver(report: Report, rules: Sequence[Result]) -> dict[str, Any]:
    catalog = Catalog()
    version = report.environment.get("mlcheck", "")
    return {
        "name": "mlcheck",
        **({"version": version, "semanticVersion": version} if re.fullmatch(r"\d+\.\d+\.\d+", version) else {}),
        "rules": [_rule(result, catalog) for result in rules],
    }


def _rule(result: Result, catalog: Catalog) -> dict[str, Any]:
    title = _text(result.title) or result.rule
    known = catalog[result.rule] if result.rule in catalog else None  # noqa: SIM401 - a Catalog has no get()
    level = {"error": "error", "warning": "warning"}.get(result.severity, "note")
    return {
        "id": result.rule,
        "name": "".join(word.capitalize() for word in result.rule.split("-")),
        "shortDescription": {"text": title},
        **(_documentation(known) if known else {"fullDescription": {"text": title}, "help": {"text": title}}),
        "defaultConfiguration": {"level": level},
        "properties": {
            "tags": ["pytorch", result.stage.value],
            "precision": "very-high" if level == "error" else "high",
            "problem.severity": _PROBLEM[level],
        },
    }


def _documentation(rule: Rule) -> dict[str, Any]:
    """The page of a rule: its first paragraph, its prose, and its prose with one wrong and one right program."""
    told = visible(page.prose(rule)) or rule.title
    paragraphs = re.sub(r"^#.*$", "", told, flags=re.MULTILINE).strip().split("\n\n")
    blocks = [f"**{kind}**\n\n```python\n{visible(code)}\n```" for kind, code in page.examples(rule)]
    return {
        "fullDescription": {"text": _text(paragraphs[0]) or rule.title},
        "help": {"text": told, "markdown": "\n\n".join([told, *blocks])},
    }


def _result(alarm: Alarm, rule: int, root: str) -> dict[str, Any]:
    finding = alarm.finding
    told = ". ".join(part.rstrip(".") for part in (finding.message, finding.help) if part) or alarm.result.rule
    made: dict[str, Any] = {
        "ruleId": alarm.result.rule,
        "ruleIndex": rule,
        "level": alarm.level,
        "message": {"text": visible(told)},
        "locations": [_location(alarm.location)],
        "partialFingerprints": {"primaryLocationLineHash": alarm.fingerprint, "mlcheck/v1": alarm.fingerprint},
    }
    related = [place for place in finding.related if place.path][:_MOST_RELATED]
    if related:
        made["relatedLocations"] = [
            {"id": number, "message": {"text": "see here"}, **_location(_moved(place, root))}
            for number, place in enumerate(related, 1)
        ]
    if alarm.waived:
        made["suppressions"] = [{"kind": "external", "justification": visible(alarm.waived)}]
    return made


def _moved(place: Location, root: str) -> Location:
    return Location(below(place.path, root), place.line, place.column, place.end_line, place.end_column, place.symbol)


def _location(place: Location) -> dict[str, Any]:
    physical: dict[str, Any] = {"artifactLocation": {"uri": _uri(place.path)}, "region": _region(place)}
    symbol = visible(place.symbol)
    return {
        "physicalLocation": physical,
        **({"logicalLocations": [{"fullyQualifiedName": symbol}]} if symbol else {}),
    }


def _region(place: Location) -> dict[str, int]:
    """GitHub asks for all four; a finding about a whole file stands at its beginning."""
    start, column = max(place.line, 1), max(place.column, 1)
    end = max(place.end_line, start)
    last = max(place.end_column, column if end == start else 1)
    return {"startLine": start, "startColumn": column, "endLine": end, "endColumn": last}


def _uri(path: str) -> str:
    name = os.fsencode(path)
    return f"file://{quote(name)}" if path.startswith("/") else quote(name)


def _invocation(report: Report, placeless: Sequence[Alarm]) -> dict[str, Any]:
    failed = broken(report)
    told = [("error", f"{result.rule} broke: {result.reason}") for result in failed]
    told += [(alarm.level, f"{alarm.result.rule}: {alarm.finding.message}") for alarm in placeless]
    told += [("note", notice) for notice in report.notices if notice]
    return {
        "executionSuccessful": not failed,
        "toolExecutionNotifications": [{"level": level, "message": {"text": visible(text)}} for level, text in told],
    }


def _text(text: str) -> str:
    """Prose on one line, short enough for a title bar."""
    line = visible(" ".join(text.split()))
    return line if len(line) <= _MOST_TEXT else line[: _MOST_TEXT - 3] + "..."
