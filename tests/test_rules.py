"""Every page is a test: what its bad programs do wrong is reported where they say, its good ones stay silent."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from mlcheck.core.outcome import By, Severity
from mlcheck.core.report import Report
from mlcheck.core.rule import Example, Rule
from mlcheck.experiment.run import run_lint_and_configs
from mlcheck.lint.run import LintSettings
from tests.pages import RULES


def examples() -> Iterator[object]:
    for rule in RULES:
        for kind in ("bad", "good"):
            programs = [example for example in rule.examples if example.kind == kind]
            for number, example in enumerate(programs, 1):
                yield pytest.param(rule, example, id=f"{rule.name}-{kind}-{number}-line-{example.line}")


def lint(example: Example, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Report:
    """The report on the program of `example`, laid out as files in `folder`."""
    monkeypatch.chdir(folder)
    for name, code in example.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(code, encoding="utf-8")
    return run_lint_and_configs(["."], LintSettings())


@pytest.mark.parametrize(("rule", "example"), list(examples()))
def test_example(rule: Rule, example: Example, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    report = lint(example, tmp_path, monkeypatch)
    alarms = {
        (result.rule, finding.location.path, finding.location.line)
        for result in report.results
        if result.severity is not Severity.NOTE or result.rule == rule.name
        for finding in result.findings
    }
    expected = {(rule.name, path, line) for path, line in example.errors} if By.LINT in rule.by else set()
    assert alarms == expected
    assert not [result.traceback for result in report.results if result.traceback]
    for finding in (finding for result in report.results if result.rule == rule.name for finding in result.findings):
        assert finding.help, "a finding says what to do"
        assert not finding.message.endswith("."), finding
        assert "\n" not in finding.message + finding.help, finding


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.name) for rule in RULES if By.LINT in rule.by])
def test_page_of_a_lint_rule_shows_more_than_one_way_to_be_wrong_and_to_be_right(rule: Rule) -> None:
    kinds = [example.kind for example in rule.examples]
    assert kinds.count("bad") >= 4
    assert kinds.count("good") >= kinds.count("bad")
    assert any(len(example.files) > 1 for example in rule.examples if example.kind == "bad")


def lines(example: Example) -> list[str]:
    return [re.sub(r"# error\b.*", "", line).strip() for code in example.files.values() for line in code.splitlines()]


@pytest.mark.parametrize("rule", [pytest.param(rule, id=rule.name) for rule in RULES if By.LINT in rule.by])
def test_page_begins_with_a_wrong_program_and_the_same_corrected(rule: Rule) -> None:
    """`mlcheck explain` shows these two side by side."""
    wrong, right = (next(each for each in rule.examples if each.kind == kind) for kind in ("bad", "good"))
    assert SequenceMatcher(None, lines(wrong), lines(right), autojunk=False).ratio() > 0.5
