"""The commands as a user meets them: what is printed, what is written, which exit code comes back."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mlcheck.cli import main, settings
from mlcheck.cli.output import exit_code
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result
from mlcheck.probe.engine import Interrupted

FORGETFUL = """\
import torch
from torch import nn


def train(loader):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
"""
CAREFUL = FORGETFUL.replace("        loss.backward()", "        optimizer.zero_grad()\n        loss.backward()")

Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes files into a fresh working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")

    def write_file(name: str, text: str) -> Path:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


def test_lint_finds_and_exits_with_one(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", FORGETFUL)
    assert main(["lint", "train.py"]) == 1
    printed = capsys.readouterr().out
    assert "train.py:10" in printed
    assert "missing-zero-grad" in printed


def test_lint_is_quiet_on_sound_code(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", CAREFUL)
    assert main(["lint"]) == 0
    assert "missing-zero-grad" not in capsys.readouterr().out


def test_lint_prints_the_report_as_json(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", FORGETFUL)
    assert main(["lint", "train.py", "--format", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    found = [finding for result in report["results"] for finding in result["findings"]]
    assert [(finding["location"]["path"], finding["location"]["line"]) for finding in found] == [("train.py", 10)]


def test_concise_is_one_line_a_finding(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", FORGETFUL)
    assert main(["lint", "--format", "concise"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "missing-zero-grad" in line]
    assert line.startswith("train.py:10:")


@pytest.mark.parametrize("option", [["--ignore", "missing-zero-grad"], ["--select", "softmax-before-ce"]])
def test_rules_are_chosen_on_the_command_line(write: Write, option: list[str]) -> None:
    write("train.py", FORGETFUL)
    assert main(["lint", "train.py", *option]) == 0


def test_rules_are_chosen_in_the_settings(write: Write) -> None:
    write("train.py", FORGETFUL)
    write("pyproject.toml", '[tool.mlcheck]\nignore = ["missing-zero-grad"]\n')
    assert main(["lint"]) == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["lint", "nowhere.py"], "nowhere.py"),
        (["lint", "--select", "missing-zero-gard"], "did you mean `missing-zero-grad`"),
        (["probe"], "name an entry point"),
        (["probe", "model_def:Trial", "--hp", "lr"], "NAME=VALUE"),
        (["probe", "model_def:Trial", "--only", "missing-zero-gard"], "did you mean `missing-zero-grad`"),
        (["explain", "softmax-befor-ce"], "`softmax-before-ce`"),
        (["report", "nowhere.json"], "nowhere.json"),
    ],
)
def test_misuse_is_one_sentence_and_exit_two(
    write: Write, capsys: pytest.CaptureFixture[str], arguments: list[str], told: str
) -> None:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.err.startswith("mlcheck: ")
    assert len(printed.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["probe", "check"])
def test_a_wrong_option_of_a_rule_is_told_before_anything_runs(
    write: Write, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    table = '[tool.mlcheck]\nentry = "gone:Trial"\n[tool.mlcheck.options.dead-units]\nshare = 2\n'
    write("pyproject.toml", table)
    assert main([command]) == 2
    printed = capsys.readouterr()
    assert printed.err == (
        "mlcheck: pyproject.toml: [tool.mlcheck.options.dead-units]: `share` is a number from 0.1 to 1, not 2\n"
    )
    assert not printed.out


@pytest.mark.parametrize("option", ["--html", "--json", "--output"])
@pytest.mark.parametrize("command", ["probe", "check"])
def test_a_report_that_cannot_be_written_is_told_before_anything_runs(
    command: str, option: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    write("train.py", "print('ran')\n")
    assert main([command, "train.py", option, "no/such/file"]) == 2
    told = capsys.readouterr()
    assert "no/such/file: cannot be written: there is no folder" in told.err
    assert told.out == ""


def test_a_saved_report_of_another_kind_is_refused(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("other.json", '{"hello": 1}')
    assert main(["report", "other.json"]) == 2
    assert "not a saved mlcheck report" in capsys.readouterr().err


def test_check_without_an_entry_point_says_that_nothing_ran(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", FORGETFUL)
    assert main(["check"]) == 1
    assert "no entry point" in capsys.readouterr().out
    assert Path("mlcheck-report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_a_saved_report_is_shown_again_as_it_was(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", FORGETFUL)
    main(["check", "--format", "json"])
    first = capsys.readouterr().out
    assert main(["report", "mlcheck-report.json", "--format", "json"]) == 1
    assert capsys.readouterr().out == first


def test_strict_counts_open_sign_offs(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", CAREFUL)
    assert main(["check"]) == 0
    assert main(["check", "--strict"]) == 1


def test_a_failing_write_keeps_the_earlier_report(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    write("train.py", CAREFUL)
    Path("taken").mkdir()
    assert main(["check", "--html", "taken"]) == 2
    assert "taken: cannot be written" in capsys.readouterr().err
    assert not list(Path().glob("*.partial"))


def test_every_rule_is_listed_and_explained(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rules"]) == 0
    assert "  missing-zero-grad " in capsys.readouterr().out
    assert main(["explain", "missing-zero-grad"]) == 0
    assert "zero_grad" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("outcomes", "expected"),
    [
        ([Outcome.PASS], 0),
        ([Outcome.PASS, Outcome.FAIL], 1),
        ([Outcome.FAIL, Outcome.ERROR], 2),
        ([Outcome.WARN, Outcome.INCONCLUSIVE, Outcome.PENDING], 0),
    ],
)
def test_a_broken_check_counts_even_where_another_decided(outcomes: list[Outcome], expected: int) -> None:
    ways = (By.LINT, By.PROBE, By.SIGN_OFF)
    results = [
        Result("missing-zero-grad", "Gradients are cleared", Stage.TRAINING, Severity.ERROR, by, outcome)
        for by, outcome in zip(ways, outcomes, strict=False)
    ]
    assert exit_code(Report("check", "x", tuple(results)), strict=False) == expected


@pytest.mark.parametrize("command", [["probe", "train.py"], ["check", "train.py", "--html", "", "--json", ""]])
def test_a_probe_without_torch_is_misuse(
    command: list[str], write: Write, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write("train.py", CAREFUL)
    monkeypatch.setattr(settings, "PROBE_NEEDS", ("no_torch_here",))
    assert main(command) == 2
    assert capsys.readouterr().err == "mlcheck: `mlcheck probe` needs no_torch_here: pip install 'mlcheck[probe]'\n"


@pytest.mark.parametrize("command", ["probe", "check"])
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["trian.py"], "there is no file trian.py: did you mean `train.py`?"),
        (["trian.py:build"], "there is no file trian.py: did you mean `train.py`?"),
        (["train.py", "--config", "none.yaml"], "there is no file none.yaml"),
        (
            ["."],
            "`.` is a folder, and an entry point is a program or a class in it: `mlcheck init` tells which there are",
        ),
    ],
)
def test_a_file_that_is_not_there_is_told_before_anything_runs(
    command: str, words: list[str], told: str, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    write("train.py", CAREFUL)
    assert main([command, *words]) == 2
    printed = capsys.readouterr()
    assert printed.err == f"mlcheck: {told}\n"
    assert printed.out == ""


@pytest.mark.parametrize("command", ["probe", "check"])
def test_an_interruption_prints_what_was_answered_and_keeps_older_files(
    command: str, write: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> Report:
        raise Interrupted(
            Report(command="probe", subject="train.py", results=(), notices=("interrupted with 5 probes open",))
        )

    for module in ("mlcheck.probe.engine", "mlcheck.checklist"):
        monkeypatch.setattr(f"{module}.run_probes", interrupted)
    write("train.py", CAREFUL)
    older = write("mlcheck-report.json", "of yesterday")
    assert main([command, "train.py"]) == 130
    assert "interrupted with 5 probes open" in capsys.readouterr().out
    assert older.read_text(encoding="utf-8") == "of yesterday"
