"""How results join into items, which result decides, and how causes gather their symptoms."""

from typing import Any

import pytest

from mlcheck.core.causes import causes
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import By, Outcome, Severity, Stage
from mlcheck.core.report import Report, Result, UnreadableReport, items, report_from_dict


def result(
    rule: str,
    outcome: Outcome,
    by: By = By.LINT,
    *,
    stage: Stage = Stage.TRAINING,
    explains: tuple[str, ...] = (),
    severity: Severity = Severity.ERROR,
) -> Result:
    return Result(rule, rule, stage, severity, by, outcome, summary=f"{by} {outcome}", explains=explains)


@pytest.mark.parametrize(
    ("rivals", "decided"),
    [
        ([(By.LINT, Outcome.FAIL), (By.PROBE, Outcome.PASS)], (By.PROBE, Outcome.PASS)),
        ([(By.SIGN_OFF, Outcome.PASS), (By.LINT, Outcome.WARN)], (By.LINT, Outcome.WARN)),
        ([(By.PROBE, Outcome.SKIP), (By.LINT, Outcome.FAIL)], (By.LINT, Outcome.FAIL)),
        ([(By.PROBE, Outcome.INCONCLUSIVE), (By.SIGN_OFF, Outcome.PASS)], (By.SIGN_OFF, Outcome.PASS)),
        ([(By.PROBE, Outcome.PASS), (By.LOAD, Outcome.FAIL)], (By.LOAD, Outcome.FAIL)),
        ([(By.LINT, Outcome.SKIP), (By.PROBE, Outcome.ERROR)], (By.PROBE, Outcome.ERROR)),
        ([(By.PROBE, Outcome.SKIP), (By.SIGN_OFF, Outcome.PENDING)], (By.SIGN_OFF, Outcome.PENDING)),
        ([(By.PROBE, Outcome.PENDING), (By.SIGN_OFF, Outcome.PASS)], (By.SIGN_OFF, Outcome.PASS)),
        ([(By.LINT, Outcome.SKIP), (By.PROBE, Outcome.INCONCLUSIVE)], (By.PROBE, Outcome.INCONCLUSIVE)),
    ],
    ids=lambda value: " ".join(str(part) for part in value) if isinstance(value, tuple) else None,
)
def test_the_strongest_that_decided_wins(rivals: Any, decided: Any) -> None:
    for order in (rivals, rivals[::-1]):
        (item,) = items(result("r", outcome, by) for by, outcome in order)
        assert (item.decided.by, item.outcome) == decided
        assert len(item.overruled) == 1


@pytest.mark.parametrize("outcome", [Outcome.FAIL, Outcome.WARN, Outcome.PENDING])
def test_a_waiver_stands_in_front_of_what_it_waives(outcome: Outcome) -> None:
    (item,) = items([result("r", outcome, By.PROBE), result("r", Outcome.WAIVED, By.SIGN_OFF)])
    assert item.outcome is Outcome.WAIVED
    assert [other.outcome for other in item.overruled] == [outcome]


@pytest.mark.parametrize("outcome", [Outcome.PASS, Outcome.SKIP, Outcome.ERROR, Outcome.INCONCLUSIVE])
def test_a_waiver_hides_nothing_else(outcome: Outcome) -> None:
    (item,) = items([result("r", Outcome.WAIVED, By.SIGN_OFF), result("r", outcome, By.PROBE)])
    assert item.outcome is outcome


def test_a_waiver_covers_what_the_strongest_said_not_what_was_overruled() -> None:
    rivals = [(By.PROBE, Outcome.PASS), (By.LINT, Outcome.FAIL), (By.SIGN_OFF, Outcome.WAIVED)]
    (item,) = items(result("r", outcome, by) for by, outcome in rivals)
    assert (item.decided.by, item.outcome) == (By.PROBE, Outcome.PASS)


def test_items_are_ordered_by_outcome_then_stage_then_name() -> None:
    given = [
        result("pass", Outcome.PASS, stage=Stage.SCOPE),
        result("late", Outcome.FAIL, stage=Stage.LAUNCH),
        result("b", Outcome.FAIL, stage=Stage.DATA),
        result("a", Outcome.FAIL, stage=Stage.DATA),
        result("crash", Outcome.ERROR, stage=Stage.SCOPE),
        result("open", Outcome.PENDING, stage=Stage.SCOPE),
        result("skip", Outcome.SKIP, stage=Stage.SCOPE),
        result("warn", Outcome.WARN, stage=Stage.SCOPE),
    ]
    names = [item.decided.rule for item in items(given)]
    assert names == ["a", "b", "late", "crash", "warn", "open", "skip", "pass"]


def cause_names(*results: Result) -> list[tuple[str, list[str]]]:
    found = causes(items(results))
    return [(cause.item.decided.rule, [symptom.decided.rule for symptom in cause.symptoms]) for cause in found]


def test_a_cause_gathers_only_rules_that_did_fail() -> None:
    cause = result("cause", Outcome.FAIL, explains=("symptom", "fine", "absent"))
    found = cause_names(cause, result("symptom", Outcome.FAIL), result("fine", Outcome.PASS))
    assert found == [("cause", ["symptom"])]


def test_a_chain_of_causes_ends_in_its_first_link() -> None:
    chain = [
        result("a", Outcome.FAIL, explains=("b",)),
        result("b", Outcome.FAIL, explains=("c",)),
        result("c", Outcome.WARN),
    ]
    assert cause_names(*chain) == [("a", ["b", "c"])]


def test_a_warning_is_not_suspected_of_what_a_failure_explains() -> None:
    suspect = result("suspect", Outcome.WARN, explains=("symptom",))
    symptom = result("symptom", Outcome.FAIL)
    assert cause_names(suspect, symptom) == [("suspect", ["symptom"])]
    cause = result("cause", Outcome.FAIL, explains=("symptom",))
    assert cause_names(cause, suspect, symptom) == [("cause", ["symptom"]), ("suspect", [])]
    waiver = result("cause", Outcome.WAIVED, By.SIGN_OFF, explains=("symptom",))
    assert cause_names(cause, waiver, suspect, symptom) == [("symptom", []), ("suspect", [])]


def test_alarms_that_explain_one_another_are_all_told() -> None:
    ring = [
        result("a", Outcome.FAIL, explains=("b",)),
        result("b", Outcome.FAIL, explains=("c",)),
        result("c", Outcome.FAIL, explains=("a", "d")),
        result("d", Outcome.FAIL),
    ]
    assert cause_names(*ring) == [("a", ["d"]), ("b", ["d"]), ("c", ["d"])]


def test_the_cause_of_most_failures_comes_first() -> None:
    found = cause_names(
        result("alone", Outcome.FAIL, stage=Stage.SCOPE),
        result("root", Outcome.FAIL, explains=("x", "y"), stage=Stage.LAUNCH),
        result("x", Outcome.FAIL),
        result("y", Outcome.WARN),
    )
    assert [name for name, _ in found] == ["root", "alone"]


def test_warnings_that_explain_warnings_wait_behind_a_failure() -> None:
    found = cause_names(
        result("hunch", Outcome.WARN, explains=("x", "y")),
        result("x", Outcome.WARN),
        result("y", Outcome.WARN),
        result("broken", Outcome.FAIL),
    )
    assert [name for name, _ in found] == ["broken", "hunch"]


def test_a_warning_that_explains_a_failure_leads() -> None:
    found = cause_names(result("hunch", Outcome.WARN, explains=("broken",)), result("broken", Outcome.FAIL))
    assert found == [("hunch", ["broken"])]


def test_a_headline_is_the_first_finding_or_the_evidence_or_why_there_is_none() -> None:
    base = {"rule": "r", "title": "t", "stage": Stage.DATA, "severity": Severity.ERROR, "by": By.LINT}
    found = Result(**base, outcome=Outcome.FAIL, summary="numbers", findings=(Finding("the defect"),))
    assert found.headline == "the defect"
    assert Result(**base, outcome=Outcome.PASS, summary="numbers", reason="why").headline == "numbers"
    assert Result(**base, outcome=Outcome.INCONCLUSIVE, summary="numbers", reason="why").headline == "why"
    assert Result(**base, outcome=Outcome.SKIP, summary="numbers").headline == "numbers"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ([], "no `schema` field"),
        ({"command": "check"}, "no `schema` field"),
        ({"schema": 99}, "schema 99"),
        ({"schema": 1}, "damaged"),
        ({**Report("check", "s", ()).to_dict(), "results": [{}]}, "damaged"),
        ({**Report("check", "s", ()).to_dict(), "results": 3}, "damaged"),
    ],
)
def test_a_report_that_cannot_be_read_says_why(data: Any, told: str) -> None:
    with pytest.raises(UnreadableReport, match=told) as caught:
        report_from_dict(data)
    assert "\n" not in str(caught.value)
