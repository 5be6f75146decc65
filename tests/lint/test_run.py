"""From paths to a report: what each result says, and that a fault of mlcheck is told as one."""

from __future__ import annotations

import gc

import pytest
from lint_runs import CAREFUL, FORGETFUL, RULE, lint, places, result, write

import mlcheck.lint.engine
from mlcheck.core.finding import Location
from mlcheck.core.outcome import By, Outcome, Severity
from mlcheck.lint.files.discover import MissingPath
from mlcheck.lint.run import LintSettings, run_lint

pytestmark = pytest.mark.usefixtures("in_empty_folder")


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
