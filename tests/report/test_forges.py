"""GitHub's annotations and GitLab's code quality report, as their documentation describes them."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result
from mlcheck.report import github, gitlab

COMMAND = re.compile(r"::(error|warning|notice) ((?:[a-zA-Z]+=[^,:\n\r]*)(?:,[a-zA-Z]+=[^,:\n\r]*)*)::([^\n\r]*)")


def one(finding: Finding, outcome: Outcome = Outcome.FAIL, rule: str = "missing-zero-grad") -> Report:
    result = Result(rule, "T", Stage.TRAINING, Severity.ERROR, By.LINT, outcome, findings=(finding,))
    return Report("lint", "src", (result,))


def parsed(text: str) -> list[tuple[str, dict[str, str], str]]:
    """What GitHub reads: kind, properties and message, with its escapes taken back."""
    found = []
    for line in text.splitlines():
        match = COMMAND.fullmatch(line)
        assert match, line
        pairs = (pair.split("=", 1) for pair in match[2].split(","))
        found.append((match[1], {name: unescaped(value) for name, value in pairs}, unescaped(match[3])))
    return found


def unescaped(text: str) -> str:
    for code, character in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, character)
    return text


def test_an_annotation_stands_at_its_place() -> None:
    finding = Finding("100 % wrong:\na, b", Location("a,b:c.py", 3, 5, 3, 9), "mend it")
    assert parsed(github.render(one(finding))) == [
        (
            "error",
            {"file": "a,b:c.py", "line": "3", "endLine": "3", "col": "5", "endColumn": "9",
             "title": "mlcheck: missing-zero-grad"},
            "100 % wrong:\na, b\nhelp: mend it",
        )
    ]  # fmt: skip


def test_columns_are_for_findings_on_one_line() -> None:
    ((_, place, _),) = parsed(github.render(one(Finding("m", Location("a.py", 3, 5, 4, 9)))))
    assert place == {"file": "a.py", "line": "3", "endLine": "4", "title": "mlcheck: missing-zero-grad"}


def test_kinds_follow_the_outcome() -> None:
    finding = Finding("m", Location("a.py", 1))
    kinds = [
        parsed(github.render(one(finding, outcome)))[0][0] for outcome in (Outcome.FAIL, Outcome.WARN, Outcome.PASS)
    ]
    assert kinds == ["error", "warning", "notice"]


def test_a_message_cannot_begin_another_command(hostile: Report) -> None:
    for line in github.render(hostile).splitlines():
        assert COMMAND.fullmatch(line) or line.startswith("::error title=mlcheck::"), line


def test_a_check_that_broke_is_an_annotation() -> None:
    result = Result("r", "T", Stage.TRAINING, Severity.ERROR, By.LINT, Outcome.ERROR, reason="KeyError: 3")
    assert github.render(Report("lint", ".", (result,))) == "::error title=mlcheck::r broke: KeyError: 3\n"


def entries(report: Report) -> list[dict[str, Any]]:
    """Read back, with what GitLab's documentation requires of every entry."""
    read: list[dict[str, Any]] = json.loads(gitlab.render(report))
    for entry in read:
        assert set(entry) == {"description", "check_name", "fingerprint", "severity", "location"}
        assert all(isinstance(entry[key], str) for key in ("description", "check_name", "fingerprint"))
        assert entry["severity"] in {"info", "minor", "major", "critical", "blocker"}
        assert entry["location"]["path"]
        assert not entry["location"]["path"].startswith("./")
        assert entry["location"]["lines"]["begin"] >= 1
    assert len({entry["fingerprint"] for entry in read}) == len(read)
    return read


def test_gitlab_is_told_place_and_severity() -> None:
    (entry,) = entries(one(Finding("m", Location("./src/a.py", 7), "mend", fingerprint="abc")))
    assert entry == {
        "description": "m (mend)",
        "check_name": "missing-zero-grad",
        "fingerprint": "abc",
        "severity": "critical",
        "location": {"path": "src/a.py", "lines": {"begin": 7}},
    }


def test_gitlab_severities() -> None:
    finding = Finding("m", Location("a.py", 1))
    kinds = [entries(one(finding, outcome))[0]["severity"] for outcome in (Outcome.FAIL, Outcome.WARN, Outcome.PASS)]
    assert kinds == ["critical", "major", "info"]


def test_gitlab_takes_any_report(report: Report, hostile: Report) -> None:
    assert "loader-raises" in {entry["check_name"] for entry in entries(report)}
    assert entries(hostile)


def test_a_waived_finding_is_not_sent() -> None:
    read = one(Finding("m", Location("a.py", 1)))
    waiver = replace(read.results[0], by=By.SIGN_OFF, outcome=Outcome.WAIVED, findings=(), reason="known")
    waived = replace(read, results=(*read.results, waiver))
    assert entries(waived) == []
    assert github.render(waived) == ""


@pytest.mark.parametrize("render", [github.render, gitlab.render])
def test_nothing_found_is_nothing_told(render) -> None:  # type: ignore[no-untyped-def]
    assert render(Report("lint", ".", ())).strip() in ("", "[]")
