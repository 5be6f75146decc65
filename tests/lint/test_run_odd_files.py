"""Files that cannot be read, that are odd, or that are notebooks: nothing in a file stops a run."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from lint_runs import FORGETFUL, RULE, lint, places, result, write

from mlcheck.core.outcome import Outcome
from mlcheck.lint.files.discover import Found, PythonFile
from mlcheck.report import lint_text

pytestmark = pytest.mark.usefixtures("in_empty_folder")


def as_notebook(*cells: str) -> str:
    made = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell.splitlines(True)} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4}, indent=1)


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        (b"x = 1\nprint x\n", 2, "syntax error"),
        (b"x.cuda(async=True)\n", 1, "syntax error"),
        (b"x = 1\ny = '\xff'\n", 2, "not UTF-8"),
        (b"x = 1\n\0\n", 2, "null bytes"),
        (b"# coding: klingon\n", 1, "klingon"),
        (b"x = " + b"(" * 500 + b")" * 500, 1, ""),
        (b"x = " + b"-" * 200_000 + b"1", 0, "too deep"),
        (b"def f():\n  x\n y\n", 3, "syntax error"),
        (b"\xff\xfex\0=\0001\0", 1, "null bytes"),
    ],
    ids=["print", "async", "latin", "null", "coding", "parentheses", "deep", "indent", "utf16"],
)
def test_a_file_that_cannot_be_read_is_one_finding_and_the_rest_goes_on(data: bytes, line: int, reason: str) -> None:
    write("broken.py", data)
    write("train.py", FORGETFUL)
    report = lint()
    told = result(report, "unreadable-file")
    assert told.outcome is Outcome.WARN
    (finding,) = told.findings
    assert finding.location.path == "broken.py"
    assert finding.location.line == line or not line
    assert reason in finding.message
    assert "\n" not in finding.message
    assert places(report) == [("train.py", 10)]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every file")
def test_a_file_without_permission_is_one_finding() -> None:
    write("closed.py", "x = 1\n")
    Path("closed.py").chmod(0)
    (finding,) = result(lint(), "unreadable-file").findings
    assert finding.message.endswith("cannot be read: Permission denied")


def test_a_file_that_vanishes_is_one_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    write("a.py", "x = 1\n")
    vanished = Found([PythonFile("a.py", "a"), PythonFile("b.py", "b")], [])
    monkeypatch.setattr("mlcheck.lint.run.discover", lambda paths, unsaved: vanished)
    (finding,) = result(lint(), "unreadable-file").findings
    assert finding.location.path == "b.py"
    assert finding.message.endswith("cannot be read: No such file or directory")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\n" * 50_000,
        b"\xef\xbb\xbfx = 1\r\ny = 2\r\n",
        b"# coding: latin-1\nx = '\xe9'\n",
        b"x = 1\n" * 50_000,
        b"x = 1",
        b"x = " + b"+".join([b"1"] * 2_000) + b"\n",
        b"if x:\n  pass\n" + b"elif x:\n  pass\n" * 500,
        b"import torch\n" + b"loss.backward()\n" * 2_000,
    ],
    ids=["empty", "blank", "bom", "latin-1", "long", "no-newline", "long-sum", "elifs", "many-backwards"],
)
def test_odd_files_are_read(data: bytes) -> None:
    write("odd.py", data)
    report = lint()
    assert result(report, "unreadable-file").outcome is Outcome.PASS
    assert [found.rule for found in report.results if found.findings or found.outcome is Outcome.ERROR] == []


def test_columns_count_characters() -> None:
    line = "    größe = '名前'; F.softmax(model(x), 1).log(); loss = F.cross_entropy(model(x).softmax(1), y)"
    write("t.py", f"import torch.nn.functional as F\n\n\ndef step(model, x, y):\n{line}\n    return loss\n")
    (finding,) = result(lint(), "softmax-before-ce").findings
    place = finding.location
    assert line[place.column - 1 : place.end_column - 1] == "model(x).softmax(1)"
    (related,) = finding.related
    assert line[related.column - 1 : related.end_column - 1] == "F.cross_entropy(model(x).softmax(1), y)"


def test_a_notebook_is_read_like_a_file() -> None:
    write("study.ipynb", as_notebook("%matplotlib inline\n" + FORGETFUL, "train([])"))
    (found,) = result(lint()).findings
    assert found.location.symbol == "cell 1, line 11"
    assert found.location.path == "study.ipynb"
    line = Path("study.ipynb").read_text(encoding="utf-8").split("\n")[found.location.line - 1]
    assert "loss.backward()" in line
    shown = lint_text.render(lint(), color=False, width=80)
    assert f"study.ipynb:{found.location.line}:9 (cell 1, line 11): error[{RULE}]" in shown
    assert f"{found.location.line} | loss.backward()" in shown


def test_a_notebook_that_imports_again_is_for_a_kernel_that_was_just_started() -> None:
    used = "import os\nimport torch\nprint(torch.cuda.device_count())"
    chosen = "os.environ['CUDA_VISIBLE_DEVICES'] = '1'"
    write("late.ipynb", as_notebook(used, chosen))
    write("again.ipynb", as_notebook(used, "import os\n" + chosen + "\nimport torch"))
    assert [path for path, _ in places(lint(), "visible-devices")] == ["late.ipynb"]


def test_a_comment_in_a_notebook_answers() -> None:
    answered = FORGETFUL.replace("loss.backward()", f"loss.backward()  # mlcheck: ignore[{RULE}] on purpose")
    write("study.ipynb", as_notebook(answered))
    report = lint()
    assert not result(report).findings
    assert not report.notices


def test_what_is_no_notebook_is_one_finding() -> None:
    write("study.ipynb", "{]")
    (found,) = result(lint(), "unreadable-file").findings
    assert "is no notebook: it is no JSON" in found.message
