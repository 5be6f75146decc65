"""From paths to a report: what is asked, what is told, and that nothing in a file stops a run."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path

import pytest

import mlcheck.lint.engine
from mlcheck.core.catalog import Catalog, UnknownRule
from mlcheck.core.finding import Location
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result
from mlcheck.lint.discover import Found, MissingPath, PythonFile
from mlcheck.lint.run import LintSettings, run_lint
from mlcheck.lint.select import NotALintRule
from mlcheck.report import lint_text

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
RULE = "missing-zero-grad"


def of_stage(stage: str) -> set[str]:
    """The rules of a stage that lint answers."""
    return {rule.name for rule in Catalog() if rule.stage == stage and By.LINT in rule.by}


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(name: str, text: str | bytes) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def lint(*paths: str, settings: LintSettings | None = None) -> Report:
    return run_lint(paths or ["."], settings or LintSettings())


def result(report: Report, rule: str = RULE) -> Result:
    (found,) = (result for result in report.results if result.rule == rule)
    return found


def places(report: Report, rule: str = RULE) -> list[tuple[str, int]]:
    return [(finding.location.path, finding.location.line) for finding in result(report, rule).findings]


def test_a_defect_is_a_failed_result_with_its_place() -> None:
    write("train.py", FORGETFUL)
    report = lint()
    failed = result(report)
    assert (failed.outcome, failed.severity, failed.by) == (Outcome.FAIL, Severity.ERROR, By.LINT)
    assert failed.stage == "training"
    assert failed.title == "Gradients are cleared before every backward pass"
    assert failed.summary == "1 finding in 1 file"
    (finding,) = failed.findings
    place = finding.location
    assert (place.path, place.line, place.column, place.end_line, place.end_column) == ("train.py", 10, 9, 10, 24)
    assert [other.rule for other in report.results if other.outcome is Outcome.FAIL] == [RULE]


def test_a_warning_is_no_failure() -> None:
    write(
        "eval.py",
        "def validate(model, val_loader):\n    model.eval()\n    for x in val_loader:\n        print(model(x))\n",
    )
    write("main.py", "import torch\nfrom eval import validate\nvalidate(torch.nn.Linear(2, 2), torch.rand(3, 2))\n")
    warned = result(lint(), "eval-without-no-grad")
    assert (warned.outcome, [finding.location.line for finding in warned.findings]) == (Outcome.WARN, [4])


def test_sound_code_passes_and_says_what_was_looked_at() -> None:
    write("train.py", CAREFUL)
    passed = result(lint())
    assert (passed.outcome, passed.findings) == (Outcome.PASS, ())
    assert passed.looked_at == 1
    assert "1 optimizer step" in passed.summary


def test_nothing_to_look_at_is_skipped_and_not_passed() -> None:
    write("src/names.py", "names = ['a', 'b']\n")
    skipped = result(lint("src"))
    assert (skipped.outcome, skipped.looked_at) == (Outcome.SKIP, 0)
    assert skipped.reason == "no optimizer step in src"


def test_every_lint_rule_has_one_result() -> None:
    write("train.py", CAREFUL)
    rules = [result.rule for result in lint().results]
    assert len(rules) == len(set(rules)) >= 11
    assert {RULE, "unreadable-file", "softmax-before-ce"} <= set(rules)


def test_no_files_is_told() -> None:
    report = lint()
    assert report.notices == (".: no Python files here",)
    assert {result.outcome for result in report.results} == {Outcome.SKIP}


def test_missing_path_is_misuse() -> None:
    with pytest.raises(MissingPath):
        lint("nowhere.py")


def test_report_says_where_it_comes_from() -> None:
    write("train.py", CAREFUL)
    report = lint("train.py")
    assert (report.command, report.subject) == ("lint", "train.py")
    assert report.environment["files linted"] == "1"
    assert "T" in report.started
    assert report.started[-6] in "+-"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (LintSettings(select=(RULE,)), {RULE}),
        (LintSettings(select=("validation",)), of_stage("validation")),
        (LintSettings(select=("scope",), extend_select=(RULE,)), of_stage("scope") | {RULE}),
        (
            LintSettings(select=("validation",), ignore=("train-not-restored", "missing-eval-mode")),
            of_stage("validation") - {"train-not-restored", "missing-eval-mode"},
        ),
        (LintSettings(select=("validation", RULE), ignore=("validation",)), {RULE}),
    ],
)
def test_rules_are_chosen_by_name_and_by_stage(settings: LintSettings, expected: set[str]) -> None:
    write("train.py", FORGETFUL)
    assert {result.rule for result in lint(settings=settings).results} == expected


def test_ignored_rules_are_absent() -> None:
    write("train.py", FORGETFUL)
    assert RULE not in {result.rule for result in lint(settings=LintSettings(ignore=(RULE,))).results}
    stages = tuple(stage for stage in Stage if stage != "validation")
    assert {result.rule for result in lint(settings=LintSettings(ignore=stages)).results} == of_stage("validation")


@pytest.mark.parametrize(
    "settings",
    [
        LintSettings(select=("missing-zero-gard",)),
        LintSettings(ignore=("missing-zero-gard",)),
        LintSettings(extend_select=("missing-zero-gard",)),
        LintSettings(per_file_ignores={"*": ("missing-zero-gard",)}),
    ],
)
def test_unknown_rule_is_misuse_with_a_suggestion(settings: LintSettings) -> None:
    with pytest.raises(UnknownRule, match="did you mean `missing-zero-grad`"):
        lint(settings=settings)


def test_rule_of_another_kind_cannot_be_selected_but_may_be_ignored() -> None:
    write("train.py", FORGETFUL)
    with pytest.raises(NotALintRule, match="worst-predictions-unseen"):
        lint(settings=LintSettings(select=("worst-predictions-unseen",)))
    assert places(lint(settings=LintSettings(ignore=("worst-predictions-unseen",)))) == [("train.py", 10)]


@pytest.mark.parametrize(
    ("pattern", "left"),
    [
        ("old/*", ["train.py"]),
        ("old/**", ["train.py"]),
        ("train.py", ["old/fit.py"]),
        ("*.py", []),
        ("other/*", ["old/fit.py", "train.py"]),
        ("./old/fit.py", ["train.py"]),
    ],
)
def test_rules_are_left_out_file_by_file(pattern: str, left: list[str]) -> None:
    write("train.py", FORGETFUL)
    write("old/fit.py", FORGETFUL)
    report = lint(settings=LintSettings(per_file_ignores={pattern: (RULE,)}))
    assert [path for path, _ in places(report)] == left


def test_file_patterns_are_relative_to_the_root() -> None:
    write("repo/old/fit.py", FORGETFUL)
    os.chdir("repo/old")
    assert places(lint(settings=LintSettings(per_file_ignores={"old/*": (RULE,)}, root=".."))) == []
    assert places(lint(settings=LintSettings(per_file_ignores={"old/*": (RULE,)}, root="."))) == [("fit.py", 10)]


def test_a_comment_answers_a_finding() -> None:
    write(
        "train.py",
        FORGETFUL.replace("loss.backward()", f"loss.backward()  # mlcheck: ignore[{RULE}] summed on purpose"),
    )
    report = lint()
    assert result(report).outcome is Outcome.PASS
    assert report.notices == ()


def test_a_comment_that_answers_nothing_is_told() -> None:
    write("train.py", CAREFUL.replace("loss.backward()", f"loss.backward()  # mlcheck: ignore[{RULE}]"))
    assert lint().notices == (f"train.py:11: `# mlcheck: ignore[{RULE}]` hides nothing: remove it",)


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


def test_progress_counts_files() -> None:
    for name in "abc":
        write(f"{name}.py", "x = 1\n")
    told: list[tuple[int, int]] = []
    run_lint(["."], LintSettings(), lambda done, total: told.append((done, total)))
    assert told == [(0, 3), (1, 3), (2, 3), (3, 3)]


def test_two_runs_say_the_same() -> None:
    write("b/train.py", FORGETFUL)
    write("a/train.py", FORGETFUL)
    first, second = lint(), lint()
    assert first.results == second.results
    assert places(first) == [("a/train.py", 10), ("b/train.py", 10)]


def test_cycle_collector_is_left_as_it_was() -> None:
    write("t.py", FORGETFUL)
    assert gc.isenabled()
    lint()
    assert gc.isenabled()
    gc.disable()
    try:
        lint()
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_check_that_breaks_is_an_error_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    write("t.py", FORGETFUL)

    def broken(facts: object) -> None:
        raise ZeroDivisionError("planted")

    from mlcheck.lint.checks import softmax_before_ce

    monkeypatch.setattr(softmax_before_ce, "check", broken)
    report = lint()
    failed = result(report, "softmax-before-ce")
    assert failed.outcome is Outcome.ERROR
    assert failed.reason == "mlcheck itself failed: ZeroDivisionError: planted"
    assert "Traceback" in failed.traceback
    assert places(report) == [("t.py", 10)]


def test_an_engine_that_breaks_says_that_files_went_unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    write("t.py", FORGETFUL)
    crash = mlcheck.lint.engine.Crash("", "t.py", "Traceback\nKeyError: 'planted'\n")
    monkeypatch.setattr("mlcheck.lint.engine.analyse", lambda *args, **more: iter([crash]))
    failed = result(lint(), "unreadable-file")
    assert failed.outcome is Outcome.ERROR
    assert failed.reason == (
        "mlcheck itself failed while it followed t.py, so findings there may be missing: KeyError: 'planted'"
    )


def test_locations_are_sorted() -> None:
    write("t.py", FORGETFUL + FORGETFUL.replace("def train", "def again"))
    locations = [finding.location for finding in result(lint()).findings]
    assert locations == sorted(locations)
    assert isinstance(locations[0], Location)
    assert len(locations) == 2


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


def as_notebook(*cells: str) -> str:
    made = [{"cell_type": "code", "metadata": {}, "outputs": [], "source": cell.splitlines(True)} for cell in cells]
    return json.dumps({"cells": made, "metadata": {}, "nbformat": 4}, indent=1)
