"""`mlcheck sign` and `mlcheck waive`: answers with a name, and what makes them end."""

from datetime import date
from pathlib import Path

import pytest

from mlcheck.checklist import Questions, run_checklist
from mlcheck.cli import main
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Item, Report, Result
from mlcheck.lint.run import LintSettings
from mlcheck.report import json

SIGN = ["sign", "baseline-unknown", "--note", "logistic regression: 91.2 %", "--by", "Ada"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "no-such-file"))
    monkeypatch.setenv("GIT_CONFIG_SYSTEM", str(tmp_path / "no-such-file"))
    (tmp_path / "train.py").write_text("x = 1\n")
    return tmp_path


def answer(rule: str) -> Item:
    report = run_checklist(("train.py",), LintSettings(), None, Questions(Path("signoff.toml")))
    return next(item for item in report.items() if item.decided.rule == rule)


def test_a_signature_is_written_and_read(capsys: pytest.CaptureFixture[str]) -> None:
    assert answer("baseline-unknown").outcome is Outcome.PENDING
    assert main([*SIGN, "--link", "docs/base.md", "--until", "2999-01-01"]) == 0
    assert f"signed baseline-unknown in signoff.toml: by Ada on {date.today()}" in capsys.readouterr().out
    signed = answer("baseline-unknown")
    assert signed.outcome is Outcome.PASS
    for part in ("Ada", "91.2 %", "docs/base.md", "2999-01-01"):
        assert part in signed.decided.summary


def test_files_that_change_open_the_question_again(folder: Path) -> None:
    (folder / "labels.csv").write_text("1")
    assert main([*SIGN, "--files", "labels.csv"]) == 0
    assert answer("baseline-unknown").outcome is Outcome.PASS
    (folder / "labels.csv").write_text("2")
    again = answer("baseline-unknown")
    assert again.outcome is Outcome.PENDING
    assert "labels.csv changed since the sign-off by Ada" in again.decided.reason
    (folder / "labels.csv").unlink()
    assert "labels.csv was removed" in answer("baseline-unknown").decided.reason


def test_signing_again_replaces(folder: Path) -> None:
    (folder / "signoff.toml").write_text("# ours\n")
    main(SIGN)
    main([*SIGN[:3], "better", *SIGN[4:]])
    text = (folder / "signoff.toml").read_text()
    assert text.startswith("# ours\n")
    assert text.count("[sign.baseline-unknown]") == 1
    assert 'note = "better"' in text


def test_a_waiver_is_written_and_read() -> None:
    assert main(["waive", "missing-eval-mode", "--reason", "no dropout", "--by", "Ada", "--until", "2999-01-01"]) == 0
    assert "waived by Ada" in answer("missing-eval-mode").results[-1].reason


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["sign", "baseline-unknwon", "--note", "x", "--by", "A"], "did you mean `baseline-unknown`"),
        (["sign", "missing-zero-grad", "--note", "x", "--by", "A"], "not by a person: to accept its failure, waive it"),
        (["sign", "baseline-unknown", "--note", "x"], "nobody is named: give --by"),
        (["sign", "baseline-unknown", "--note", " ", "--by", "A"], "`note` must be a text that is not empty"),
        ([*SIGN, "--until", "tomorrow"], "--until tomorrow: write a day like 2027-05-01"),
        ([*SIGN, "--until", "2020-01-01"], "that day has passed"),
        ([*SIGN, "--files", "gone.csv"], "gone.csv cannot be read"),
        (["sign", "batch-not-reviewed", "--note", "x", "--by", "A"], "there is no report yet: run `mlcheck check`"),
        (["waive", "missing-eval-mode", "--by", "A"], "required: --reason"),
    ],
)
def test_what_cannot_be_signed_is_one_sentence_and_leaves_the_file_alone(
    arguments: list[str], told: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "signoff.toml").write_text("# ours\n")
    try:
        code = main(arguments)
    except SystemExit as exit_:
        code = int(str(exit_.code))
    assert code == 2
    assert told in capsys.readouterr().err
    assert sorted(path.name for path in folder.iterdir()) == ["signoff.toml", "train.py"]
    assert (folder / "signoff.toml").read_text() == "# ours\n"


def shown(summary: str) -> Result:
    return Result(
        "batch-not-reviewed", "Seen", Stage.DATA, Severity.WARNING, By.PROBE, Outcome.PENDING, summary, "look"
    )


def test_evidence_is_signed_as_it_was_shown(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved = Report("check", "train:build", (shown("32 images"),))
    (folder / "mlcheck-report.json").write_text(json.render(saved))
    assert main(["sign", "batch-not-reviewed", "--note", "digits, upright", "--by", "Ada"]) == 0

    def checked(now: Result) -> Item:
        monkeypatch.setattr("mlcheck.checklist.run_probes", lambda *_: Report("probe", "x", (now,)))
        from mlcheck.probe.engine import ProbeOptions

        report = run_checklist(("train.py",), LintSettings(), ProbeOptions("x"), Questions(Path("signoff.toml")))
        return next(item for item in report.items() if item.decided.rule == "batch-not-reviewed")

    assert checked(shown("32 images")).outcome is Outcome.PASS
    other = checked(shown("32 images, upside down"))
    assert other.outcome is Outcome.PENDING
    assert "the evidence changed since the sign-off by Ada" in other.decided.reason
    assert other.decided.summary == "32 images, upside down"
