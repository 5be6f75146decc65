"""A baseline hides what is known, wherever its lines move, and says what is fixed; nothing new gets past it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mlcheck.core.outcome import Outcome
from mlcheck.core.report import Report, Result
from mlcheck.lint.baseline import BadBaseline
from mlcheck.lint.run import LintSettings, run_lint

RULE = "missing-zero-grad"
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
FIXED = FORGETFUL.replace("        loss.backward()", "        optimizer.zero_grad()\n        loss.backward()")
AGAIN = "again" + FORGETFUL.partition("def train")[2]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str) -> None:
    Path(name).parent.mkdir(parents=True, exist_ok=True)
    Path(name).write_text(text, encoding="utf-8")


def lint(*paths: str, write_baseline: bool = False, **more: object) -> Report:
    settings = LintSettings(baseline="known.json", write_baseline=write_baseline, **more)  # type: ignore[arg-type]
    return run_lint(paths or ["."], settings)


def result(report: Report, rule: str = RULE) -> Result:
    (found,) = (result for result in report.results if result.rule == rule)
    return found


def entries() -> list[dict[str, str]]:
    read: list[dict[str, str]] = json.loads(Path("known.json").read_text(encoding="utf-8"))["findings"]
    return read


def test_what_is_known_is_hidden_and_counted() -> None:
    write("train.py", FORGETFUL)
    written = lint(write_baseline=True)
    assert written.notices == ("known.json: written with 1 known finding",)
    assert result(written).findings == ()
    report = lint()
    assert (result(report).outcome, result(report).findings) == (Outcome.PASS, ())
    assert result(report).summary == "nothing new; 1 finding known in the baseline"
    assert report.notices == ("known.json hides 1 finding",)


def test_the_file_can_be_read_and_reviewed() -> None:
    write("b/train.py", FORGETFUL)
    write("a.py", FORGETFUL)
    lint(write_baseline=True)
    assert [(entry["rule"], entry["path"], entry["code"]) for entry in entries()] == [
        (RULE, "a.py", "loss.backward()"),
        (RULE, "b/train.py", "loss.backward()"),
    ]
    lines = Path("known.json").read_text(encoding="utf-8").splitlines()
    assert sum("fingerprint" in line for line in lines) == 2


@pytest.mark.parametrize(
    "moved",
    [
        "\n\n# moved down\n" + FORGETFUL,
        FORGETFUL.replace("        loss.backward()", "        if True:\n            loss.backward()"),
        FORGETFUL.replace("loss.backward()", "loss.backward()   "),
        FORGETFUL.replace("lr=0.1", "lr=0.01"),
        FORGETFUL + "\n\ndef other():\n    pass\n",
    ],
)
def test_a_finding_is_known_wherever_its_line_moves(moved: str) -> None:
    write("train.py", FORGETFUL)
    lint(write_baseline=True)
    write("train.py", moved)
    assert result(lint()).findings == ()


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (FORGETFUL.replace("loss.backward()", "loss.backward(retain_graph=False)"), 10),
        (FORGETFUL + "\n\ndef " + AGAIN, 19),
        (FORGETFUL.replace("def train", "def fit"), 10),
    ],
)
def test_what_is_new_gets_past_no_baseline(changed: str, line: int) -> None:
    write("train.py", FORGETFUL)
    lint(write_baseline=True)
    write("train.py", changed)
    assert [finding.location.line for finding in result(lint()).findings] == [line]


def test_the_same_line_twice_counts_twice() -> None:
    twice = FORGETFUL + FORGETFUL.partition("    model")[1] + FORGETFUL.partition("    model")[2]
    write("train.py", FORGETFUL)
    lint(write_baseline=True)
    write("train.py", twice)
    assert len(result(lint()).findings) == 1
    lint(write_baseline=True)
    assert len(entries()) == 2
    assert result(lint()).findings == ()


def test_another_file_is_not_known() -> None:
    write("train.py", FORGETFUL)
    lint(write_baseline=True)
    write("copy.py", FORGETFUL)
    assert [finding.location.path for finding in result(lint()).findings] == ["copy.py"]


def test_what_is_mended_is_told_and_taken_out() -> None:
    write("train.py", FORGETFUL)
    write("other.py", FORGETFUL)
    lint(write_baseline=True)
    write("train.py", FIXED)
    assert lint().notices == (
        "known.json hides 1 finding",
        f"known.json: 1 finding fixed ({RULE} in train.py): `--write-baseline` takes it out",
    )
    lint(write_baseline=True)
    assert [entry["path"] for entry in entries()] == ["other.py"]


def test_a_file_that_is_gone_is_mended() -> None:
    write("train.py", FORGETFUL)
    write("other.py", "x = 1\n")
    lint(write_baseline=True)
    Path("train.py").unlink()
    assert "1 finding fixed" in lint().notices[0]


@pytest.mark.parametrize("narrower", [{"paths": ["other.py"]}, {"select": ("softmax-before-ce",)}])
def test_what_was_not_looked_at_stays(narrower: dict[str, object]) -> None:
    write("train.py", FORGETFUL)
    write("other.py", "x = 1\n")
    lint(write_baseline=True)
    write("train.py", FIXED)
    paths = narrower.pop("paths", [])
    assert lint(*paths, **narrower).notices == ()  # type: ignore[misc]
    lint(*paths, write_baseline=True, **narrower)  # type: ignore[misc]
    assert [entry["path"] for entry in entries()] == ["train.py"]


def test_what_a_comment_answers_needs_no_baseline() -> None:
    write("train.py", FORGETFUL.replace("loss.backward()", f"loss.backward()  # mlcheck: ignore[{RULE}] summed"))
    lint(write_baseline=True)
    assert entries() == []


def test_paths_are_those_of_the_project_wherever_it_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    write("sub/train.py", FORGETFUL)
    lint(write_baseline=True)
    monkeypatch.chdir("sub")
    settings = LintSettings(baseline="../known.json", root="..")
    assert result(run_lint(["."], settings)).findings == ()


def test_a_fingerprint_is_the_same_in_every_run() -> None:
    write("train.py", FORGETFUL)
    first, second = (result(run_lint(["."], LintSettings())).findings[0] for _ in range(2))
    assert first.fingerprint == second.fingerprint
    assert len(first.fingerprint) == 32


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"findings": [{"rule": "x"}]}', '{"findings": 3}', "\x00"])
def test_what_is_no_baseline_is_misuse(text: str) -> None:
    write("known.json", text)
    with pytest.raises(BadBaseline, match=r"known\.json: this is no baseline of mlcheck"):
        lint()


def test_a_missing_baseline_is_misuse() -> None:
    with pytest.raises(BadBaseline, match="--write-baseline"):
        lint()


def test_a_failing_write_keeps_the_earlier_one() -> None:
    write("train.py", FORGETFUL)
    Path("known.json").mkdir()
    with pytest.raises(BadBaseline, match=r"known\.json"):
        lint(write_baseline=True)
    assert not list(Path().glob("*.partial"))
