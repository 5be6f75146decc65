"""The words all renderers share."""

import math
import shlex
from typing import Any

import pytest

from mlcheck.core.causes import causes
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result, items
from mlcheck.report import digest
from mlcheck.report.headline import Headline, headline


def result(rule: str, outcome: Outcome, by: By = By.LINT, **more: Any) -> Result:
    return Result(rule, rule, Stage.DATA, Severity.ERROR, by, outcome, **more)


def verdict(*results: Result) -> Headline:
    checklist = items(results)
    return headline(checklist, causes(checklist))


def test_the_headline_names_the_cause_its_place_and_what_it_explains() -> None:
    found = (Finding("it sums to 1.", Location("model.py", 42, 7)),)
    told = verdict(
        result("cause", Outcome.FAIL, findings=found, explains=("x", "y")),
        result("x", Outcome.FAIL),
        result("y", Outcome.WARN),
    )
    assert (told.outcome, told.rule, told.sentence, told.place) == (
        Outcome.FAIL,
        "cause",
        "it sums to 1",
        "model.py:42",
    )
    assert told.explains == "it explains 1 other failure and 1 warning"


def test_a_heuristic_only_may_explain() -> None:
    told = verdict(result("hunch", Outcome.WARN, summary="w", explains=("x",)), result("x", Outcome.WARN))
    assert (told.outcome, told.rule) == (Outcome.WARN, "hunch")
    assert told.explains == "it may explain 1 other warning"


def test_what_failed_comes_before_what_only_warns_and_may_explain_it() -> None:
    hunch = result("hunch", Outcome.WARN, summary="w", explains=("x", "y"))
    told = verdict(hunch, result("y", Outcome.WARN), result("x", Outcome.FAIL, summary="it broke"))
    assert (told.outcome, told.rule, told.sentence) == (Outcome.FAIL, "x", "it broke")
    assert told.explains == "hunch may explain it"


def test_a_crash_without_words_shows_the_end_of_its_traceback() -> None:
    told = verdict(result("r", Outcome.ERROR, traceback="Traceback:\n  File x\nValueError: no"))
    assert (told.outcome, told.sentence) == (Outcome.ERROR, "ValueError: no")


@pytest.mark.parametrize(
    ("outcomes", "verdict_", "told"),
    [
        ([Outcome.PASS, Outcome.SKIP], Outcome.PASS, "nothing failed: 1 passed, 1 skipped"),
        ([Outcome.PASS, Outcome.PENDING], Outcome.PENDING, "1 question waits for a person's sign-off; nothing failed"),
        (
            [Outcome.PASS, Outcome.INCONCLUSIVE, Outcome.PASS],
            Outcome.INCONCLUSIVE,
            "1 of 3 questions could not be decided; nothing failed: 2 passed",
        ),
        (
            [Outcome.INCONCLUSIVE, Outcome.SKIP],
            Outcome.INCONCLUSIVE,
            "1 of 1 question could not be decided; 1 skipped",
        ),
        (
            [Outcome.PENDING, Outcome.INCONCLUSIVE, Outcome.PASS],
            Outcome.PENDING,
            "1 question waits for a person's sign-off; 1 of 2 questions could not be decided; nothing failed: 1 passed",
        ),
        ([Outcome.SKIP, Outcome.SKIP], Outcome.SKIP, "nothing was checked: 2 skipped"),
        ([Outcome.WAIVED], Outcome.SKIP, "nothing was checked: 1 waived"),
        ([], Outcome.SKIP, "nothing was checked"),
    ],
)
def test_without_an_alarm_the_headline_says_what_it_rests_on(outcomes: Any, verdict_: Any, told: str) -> None:
    given = verdict(*(result(f"r{position}", outcome) for position, outcome in enumerate(outcomes)))
    assert given.outcome is verdict_
    assert given.sentence.startswith(told)


def test_the_command_to_repeat_survives_a_shell() -> None:
    report = Report("check", "my model:Net", ())
    seen = result("r", Outcome.FAIL, By.PROBE)
    assert shlex.split(digest.repeat_command(seen, report)) == ["mlcheck", "probe", "my model:Net", "--only", "r"]
    read = result("r", Outcome.FAIL, findings=(Finding("m", Location("$(rm x).py", 1)),))
    assert shlex.split(digest.repeat_command(read, report)) == ["mlcheck", "lint", "$(rm x).py", "--select", "r"]
    assert digest.repeat_command(result("r", Outcome.PENDING, By.SIGN_OFF), report) == ""


def test_a_rule_of_any_name_is_signed_by_one_command() -> None:
    assert digest.sign_command("some-rule") == "mlcheck sign some-rule --note ''"
    assert digest.sign_command("x; rm -r") == "mlcheck sign 'x; rm -r' --note ''"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (2.0, "2"),
        (0.123456, "0.1235"),
        (3.1e-8, "3.1e-08"),
        (math.nan, "NaN"),
        (-math.inf, "-inf"),
        (1e300, "1e+300"),
        (10**400, "1.000e+400"),
        ("x", "x"),
        (True, "True"),
    ],
)
def test_numbers(value: Any, text: str) -> None:
    assert digest.number(value) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, ""),
        (math.nan, ""),
        (0.0004, "1 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.1 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (125.2, "2 min 05 s"),
    ],
)
def test_durations(seconds: Any, text: str) -> None:
    assert digest.duration(seconds) == text


def test_a_moment_that_is_no_date_stays() -> None:
    assert digest.moment("2026-11-21T14:31:19+00:00") == "2026-11-21 14:31 UTC"
    assert digest.moment("yesterday") == "yesterday"


def test_what_probes_cost_is_told_in_training_steps() -> None:
    seen = (result("slow", Outcome.PASS, By.PROBE, seconds=2.0),
            result("quick", Outcome.PASS, By.PROBE, seconds=0.5),
            result("read", Outcome.PASS, By.LINT, seconds=9.0))  # fmt: skip
    report = Report("check", "", seen, step_seconds=0.01)
    told = digest.cost(report)
    assert told.startswith(
        "the probes took 2.5 s, as long as 250 training steps of 10 ms; most of it: slow 2.0 s, quick"
    )
    assert "read" not in told
    assert digest.took(seen[0], report) == "2.0 s, as long as 200 training steps"
    assert digest.took(seen[2], report) == "9.0 s"
    data = report.to_dict()
    assert (data["probe_steps"], [one["steps"] for one in data["results"]]) == (250.0, [200.0, 50.0, 0.0])


@pytest.mark.parametrize("step", [0.0, math.nan, math.inf, 1e-320])
def test_without_a_step_that_was_timed_the_cost_is_seconds_alone(step: Any) -> None:
    report = Report("probe", "", (result("slow", Outcome.PASS, By.PROBE, seconds=2.0),), step_seconds=step)
    assert digest.cost(report) == ""
    assert digest.took(report.results[0], report) == "2.0 s"
