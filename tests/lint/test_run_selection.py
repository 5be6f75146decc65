"""Which rules are asked of which files, and which findings a comment answers."""

from __future__ import annotations

import os

import pytest
from lint_runs import CAREFUL, FORGETFUL, RULE, lint, places, result, write

from mlcheck.core.catalog import UnknownRule
from mlcheck.core.outcome import By, Outcome, Stage
from mlcheck.lint.run import LintSettings
from mlcheck.lint.select import NotALintRule
from tests.pages import RULES

pytestmark = pytest.mark.usefixtures("in_empty_folder")


def of_stage(stage: str) -> set[str]:
    """The rules of a stage that lint answers."""
    return {rule.name for rule in RULES if rule.stage == stage and By.LINT in rule.by}


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
