"""`mlcheck rules` and `mlcheck explain`: for people at any width, and for programs."""

from __future__ import annotations

import json
import re

import pytest

from mlcheck.cli import main
from mlcheck.core.catalog import Catalog
from mlcheck.report import page
from tests.pages import RULES

Out = pytest.CaptureFixture[str]


def listed(capsys: Out, *arguments: str) -> str:
    assert main(["rules", *arguments]) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("width", [30, 60, 80, 120, 200])
def test_columns_stand_apart_at_every_width(capsys: Out, monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = listed(capsys).splitlines()
    for rule in RULES:
        (line,) = [line for line in lines if re.match(rf"  {rule.name}  ", line)]
        by = "+".join(one.value for one in rule.by)
        assert re.match(rf"  {rule.name} {{2,}}{rule.severity.value} {{2,}}{re.escape(by)}(?: {{2,}}|$)", line), line
    if width >= 80:
        assert max(map(len, lines)) <= width
    assert lines[-1].startswith(f"{len(RULES)} rules")


def test_rules_can_be_narrowed(capsys: Out) -> None:
    names = listed(capsys, "--format", "names").split()
    assert sorted(names) == sorted(rule.name for rule in RULES)
    lint_errors = listed(
        capsys, "--format", "names", "--severity", "error", "--by", "lint", "--stage", "training"
    ).split()
    assert set(lint_errors) == {
        rule.name for rule in RULES if rule.stage == "training" and rule.severity == "error" and "lint" in rule.by
    }
    two = listed(capsys, "--format", "names", "--stage", "scope", "--stage", "design").split()
    assert set(two) == {rule.name for rule in RULES if rule.stage in ("scope", "design")}


def test_no_rule_is_told(capsys: Out) -> None:
    assert listed(capsys, "--stage", "scope", "--by", "load") == "no rule is like that\n"


def test_rules_for_programs(capsys: Out) -> None:
    read = json.loads(listed(capsys, "--format", "json"))
    (entry,) = [entry for entry in read if entry["name"] == "missing-zero-grad"]
    assert entry["severity"] == "error"
    assert entry["by"] == ["probe", "lint"]
    assert entry["stage"] == "training"
    assert len(read) == len(RULES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_page_can_be_read_in_eighty_columns(capsys: Out, monkeypatch: pytest.MonkeyPatch, rule) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["explain", rule.name]) == 0
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert lines[0] in rule.title
    assert f"{rule.name}: {rule.severity.value}" in printed
    assert "```" not in printed
    assert not [line for line in lines if len(line) > 80 and not line.startswith("  ") and "http" not in line]
    if any(example.errors for example in rule.examples):
        assert "<-- reported" in printed


def test_a_page_shows_one_wrong_and_one_right_program_or_all(capsys: Out) -> None:
    main(["explain", "softmax-before-ce"])
    short = capsys.readouterr().out
    main(["explain", "softmax-before-ce", "--all"])
    whole = capsys.readouterr().out
    count = len(Catalog()["softmax-before-ce"].examples)
    assert re.search(rf"{count - 2} more examples: `mlcheck explain softmax-before-ce --all`", short)
    assert len(re.findall(r"^(?:Wrong|Right)", whole, re.MULTILINE)) >= count
    assert "more example" not in whole


def test_colours_are_for_terminals(capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    main(["explain", "missing-zero-grad"])
    assert "\x1b[1m" in capsys.readouterr().out
    monkeypatch.setenv("NO_COLOR", "1")
    main(["explain", "missing-zero-grad"])
    assert "\x1b" not in capsys.readouterr().out


def test_a_word_of_a_name_finds_the_rules_that_have_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "zero"]) == 2
    assert (
        "no rule is called `zero`; did you mean `missing-zero-grad` or `num-workers-zero` or" in capsys.readouterr().err
    )


def test_what_a_page_says_is_said_whole_and_without_marks() -> None:
    for rule in RULES:
        told = page.page(rule, 80, color=False)
        said = "\n".join(line for line in told.splitlines() if not line.startswith("    "))
        assert "```" not in said, rule.name
        assert "**" not in said, rule.name
        for heading in re.findall(r"^## (?!Reported|Not reported)(.+)$", rule.body, re.MULTILINE):
            assert f"\n{heading}\n" in said, (rule.name, heading)
