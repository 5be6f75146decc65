"""What the README shows is what happens."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from datetime import date
from pathlib import Path

import pytest

from mlcheck.cli.parser import parse
from mlcheck.config import load_config
from mlcheck.core.catalog import Catalog
from mlcheck.core.outcome import Outcome
from mlcheck.core.rule import Rule, read_page
from mlcheck.core.signing import print_of_files
from mlcheck.core.signoff import sign_off_results
from mlcheck.lint.run import LintSettings, run_lint

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def shown() -> list[tuple[str, str]]:
    """The commands of the first excerpt, each with the output that is printed beneath it."""
    (excerpt,) = blocks("console")
    commands = re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", excerpt, re.MULTILINE)
    assert len(commands) == 3
    return commands


def run(command: str) -> str:
    folder = ROOT / shown()[0][0].removeprefix("cd ")
    arguments = [sys.executable, "-m", "mlcheck", *command.split()[1:]]
    environment = {**os.environ, "COLUMNS": "96", "NO_COLOR": "1"}
    done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    return done.stdout


def test_lint_prints_what_is_shown() -> None:
    command, printed = shown()[1]
    assert command.startswith("mlcheck lint ")
    assert run(command) == printed


@pytest.mark.slow
def test_probe_begins_with_what_is_shown() -> None:
    command, printed = shown()[2]
    assert command.startswith("mlcheck probe ")
    assert " ".join(run(command).split()).startswith(" ".join(printed.split()))


def test_the_configuration_shown_is_accepted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = next(block for block in blocks("toml") if "[tool.mlcheck]" in block)
    (tmp_path / "pyproject.toml").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    config = load_config()
    assert config.entry == "train:build"
    names = {*config.ignore, *(name for ignored in config.per_file_ignores.values() for name in ignored)}
    assert names <= set(Catalog().paths)


def test_the_sign_offs_shown_are_accepted(tmp_path: Path) -> None:
    text = next(block for block in blocks("toml") if "[waive." in block)
    signed, waived = tomllib.loads(text)["sign"], tomllib.loads(text)["waive"]
    assert (len(signed), len(waived)) == (1, 1)
    files = signed["baseline-unknown"]["files"]
    (tmp_path / "data").mkdir()
    (tmp_path / files[0]).write_text("7\n", encoding="utf-8")

    def outcomes(printed: str) -> dict[str, Outcome]:
        (tmp_path / "signoff.toml").write_text(
            text.replace(signed["baseline-unknown"]["print"], printed), encoding="utf-8"
        )
        results = sign_off_results(Catalog(), tmp_path / "signoff.toml", date(2026, 11, 3))
        return {result.rule: result.outcome for result in results}

    of_these = outcomes(print_of_files(files, tmp_path))
    assert of_these["baseline-unknown"] is Outcome.PASS
    assert of_these["random-evaluation"] is Outcome.WAIVED
    assert outcomes(signed["baseline-unknown"]["print"])["baseline-unknown"] is Outcome.PENDING


def commands_shown() -> list[list[str]]:
    """Every command of mlcheck in the blocks for a shell, and in the text between backticks where it is whole."""
    blocks = re.findall(r"^ *```sh\n(.*?)^ *```$", README, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`(mlcheck (?:check|compare|explain|init|lint|load|probe|report|sign|waive)\b[^`]*)`", README)
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("mlcheck ")]


@pytest.mark.parametrize("command", commands_shown(), ids=" ".join)
def test_every_command_shown_is_one(command: list[str]) -> None:
    arguments = parse(command[: command.index("--")] if "--" in command else command)
    assert arguments.command == command[0]
    rule = getattr(arguments, "rule", "")
    assert rule in Catalog() or rule in ("", "RULE")


@pytest.mark.slow
def test_the_first_commands_lead_to_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "wine"
    shutil.copytree(ROOT / "examples/wine_script", folder, ignore=shutil.ignore_patterns("pyproject.toml", "mlcheck-*"))
    shown = [command for command in commands_shown() if command[0] in ("init", "lint", "check", "sign")][:4]
    assert [command[0] for command in shown] == ["init", "lint", "check", "sign"]
    few = {
        "init": ["--yes"],
        "check": ["--only", "entry-does-not-run,batch-not-reviewed"],
        "sign": ["--by", "Ada"],
    }
    for command in shown:
        arguments = [sys.executable, "-m", "mlcheck", *command, *few.get(command[0], [])]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(arguments, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    assert "batch-not-reviewed" in (folder / "mlcheck-report.html").read_text(encoding="utf-8")
    assert "Ada" in (folder / "signoff.toml").read_text(encoding="utf-8")


def page_shown(tmp_path: Path) -> Rule:
    match = re.search(r"^````markdown\n(.*?)^````$", README, re.MULTILINE | re.DOTALL)
    assert match
    page = tmp_path / "training" / "softmax-before-ce.md"
    page.parent.mkdir()
    page.write_text(match[1], encoding="utf-8")
    return read_page(page)


def test_the_page_shown_is_a_page_and_its_examples_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rule = page_shown(tmp_path)
    assert rule.explains == Catalog()[rule.name].explains
    assert [example.kind for example in rule.examples] == ["bad", "good"]
    for example in rule.examples:
        folder = tmp_path / example.kind
        folder.mkdir()
        for name, code in example.files.items():
            (folder / name).write_text(code, encoding="utf-8")
        monkeypatch.chdir(folder)
        report = run_lint((".",), LintSettings())
        findings = [finding for result in report.results for finding in result.findings]
        assert [(f.location.path, f.location.line) for f in findings] == list(example.errors)


def test_the_check_shown_is_the_check() -> None:
    source = (ROOT / "mlcheck/lint/checks/softmax_before_ce.py").read_text(encoding="utf-8")
    assert source in [f"{block}" for block in blocks("python")]


def test_every_rule_named_exists() -> None:
    named = re.findall(r"mlcheck: ignore\[(.*?)\]|\[(?:sign|waive)\.(.*?)\]", README)
    assert {one or other for one, other in named} <= set(Catalog().paths)
