"""Judges of single answers: must-pass cases, repetition, batches, broken queries, modes."""

from __future__ import annotations

from load_phases import survey

from mlcheck.core.outcome import Outcome
from mlcheck.load.cases import Case, Conduct, GoldenRun
from mlcheck.load.checks import (
    answer_not_finite,
    answer_not_repeatable,
    bad_query_breaks_service,
    batch_changes_answer,
    golden_case_fails,
    serves_in_training_mode,
    serves_with_gradients,
    service_does_not_start,
)
from mlcheck.load.start import Start


def case(told: str = "", **given: str) -> Case:
    return Case("a", "f:1", told, **given)


def conduct(**given: object) -> Conduct:
    fields = {"module_calls": 3, "repeated": [case(), case()], "batch": [case()], "broken": [case(note="refused: E")]}
    return Conduct(**{**fields, **given})  # type: ignore[arg-type]


def test_golden_cases_all_pass_or_it_fails() -> None:
    assert golden_case_fails.check(GoldenRun((case(), case()))).outcome is Outcome.PASS
    found = golden_case_fails.check(GoldenRun((case(), case("answer is 1, expected 2"))))
    assert found.outcome is Outcome.FAIL
    assert found.findings[0].message == "case 'a' (f:1): answer is 1, expected 2"


def test_repetition() -> None:
    assert answer_not_repeatable.check(conduct()).outcome is Outcome.PASS
    changed = conduct(repeated=[case(), case("answer is 1, expected 2")], training=["Net.drop (Dropout)"])
    found = answer_not_repeatable.check(changed)
    assert found.outcome is Outcome.FAIL
    assert "Net.drop (Dropout) runs in training mode" in found.findings[0].message
    assert answer_not_repeatable.check(conduct(repeatable=False)).outcome is Outcome.SKIP


def test_batches() -> None:
    assert batch_changes_answer.check(conduct()).outcome is Outcome.PASS
    assert batch_changes_answer.check(conduct(batch_skipped="no predict_batch", batch=[])).outcome is Outcome.SKIP
    assert batch_changes_answer.check(conduct(batch=[case("differs")])).outcome is Outcome.FAIL
    unsure = conduct(batch=[case("differs")], repeated=[case("differs")])
    assert batch_changes_answer.check(unsure).outcome is Outcome.INCONCLUSIVE


def test_broken_queries() -> None:
    assert bad_query_breaks_service.check(conduct()).outcome is Outcome.PASS
    assert bad_query_breaks_service.check(conduct(broken=[])).outcome is Outcome.SKIP
    found = bad_query_breaks_service.check(conduct(broken=[case("the process was ended by SIGSEGV", traceback="S")]))
    assert found.outcome is Outcome.FAIL
    assert found.traceback == "S"


def test_modes_and_gradients() -> None:
    assert serves_in_training_mode.check(conduct()).outcome is Outcome.PASS
    assert serves_in_training_mode.check(conduct(training=["Net.drop (Dropout)"])).outcome is Outcome.FAIL
    assert serves_in_training_mode.check(conduct(module_calls=0)).outcome is Outcome.SKIP
    assert serves_with_gradients.check(conduct()).outcome is Outcome.PASS
    assert serves_with_gradients.check(conduct(graph="Net")).outcome is Outcome.WARN
    assert serves_with_gradients.check(conduct(module_calls=0)).outcome is Outcome.SKIP


def test_start_and_finite_answers() -> None:
    assert service_does_not_start.check(Start()).outcome is Outcome.PASS
    assert service_does_not_start.check(Start("loading raised E", "T")).traceback == "T"
    assert answer_not_finite.check(survey()).outcome is Outcome.PASS
    found = answer_not_finite.check(survey(not_finite={1: "answer.score"}))
    assert found.findings[0].message == "query 'second': answer.score is NaN or infinite"
    nothing = survey(median_ms=(float("nan"),) * 2)
    assert answer_not_finite.check(nothing).outcome is Outcome.SKIP
