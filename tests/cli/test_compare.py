"""`mlcheck compare`, and what `mlcheck check` says of the report it replaces."""

import re
from pathlib import Path

import pytest

from mlcheck.cli import main

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


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


def check(text: str, saved: str = "mlcheck-report.json") -> int:
    Path("train.py").write_text(text)
    return main(["check", "--json", saved, "--html", "page.html"])


def test_what_broke_is_new_and_what_was_fixed_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    check(CAREFUL, "good.json")
    check(FORGETFUL, "bad.json")
    capsys.readouterr()
    assert main(["compare", "good.json", "bad.json"]) == 1
    assert re.search(r"^NEW     missing-zero-grad: This backward .*\n1 new$", capsys.readouterr().out, re.MULTILINE)
    assert main(["compare", "bad.json", "good.json"]) == 0
    assert "FIXED   missing-zero-grad" in capsys.readouterr().out
    assert main(["compare", "bad.json", "bad.json"]) == 0
    assert "STILL   missing-zero-grad: still there: This" in capsys.readouterr().out


def test_a_check_compares_with_the_report_it_replaces(capsys: pytest.CaptureFixture[str]) -> None:
    check(FORGETFUL)
    assert "since" not in capsys.readouterr().out
    check(CAREFUL)
    out = capsys.readouterr().out
    assert re.search(r"note     since \d{4}-.*: 1 fixed", out)
    assert "fixed: missing-zero-grad" in out
    page = Path("page.html").read_text()
    assert "Since the last run" in page
    assert 'class="change-fixed"' in page
    assert main(["report", "mlcheck-report.json"]) == 0
    assert "fixed: missing-zero-grad" in capsys.readouterr().out


def test_a_report_about_something_else_or_a_damaged_one_is_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    Path("mlcheck-report.json").write_text("{")
    check(CAREFUL)
    assert "since" not in capsys.readouterr().out
    Path("other.py").write_text(CAREFUL)
    main(["check", "--paths", "other.py"])
    assert "since" not in capsys.readouterr().out


@pytest.mark.parametrize(("text", "told"), [(None, "cannot be read"), ("{", "bad.json"), ("{}", "no `schema` field")])
def test_a_file_that_is_no_report_is_named(text: str | None, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    if text is not None:
        Path("bad.json").write_text(text)
    assert main(["compare", "bad.json", "bad.json"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("mlcheck: bad.json: ")
    assert told in error
    assert error.count("\n") == 1
