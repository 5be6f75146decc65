"""How checks are asked: what is missing is said, a crash is an error, and half a ladder passes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from load_phases import closed, ladder, phase, rung, survey

from mlcheck.core.check import Verdict
from mlcheck.core.mistake import Mistake
from mlcheck.core.outcome import By, Outcome
from mlcheck.load.cases import GoldenRun
from mlcheck.load.checks import query_fails
from mlcheck.load.ladder import Ladder
from mlcheck.load.limits import Limits
from mlcheck.load.start import Start
from mlcheck.load.survey import Survey
from mlcheck.load.verdicts import evidence_of, judge

FAST = phase(np.full(500, 5.0))
POWER = Verdict(Outcome.SKIP, reason="the power went out")


def judged(seen: Ladder, only: str = "query-fails") -> tuple[Outcome, str]:
    (result,) = judge({Ladder: seen, Limits: Limits(), Survey: survey(), Start: Start()}, POWER, (only,))
    assert result.by is By.LOAD
    return result.outcome, result.reason


def test_half_a_ladder_passes_nothing_and_still_fails() -> None:
    assert judged(ladder(rung(FAST)))[0] is Outcome.PASS
    outcome, reason = judged(ladder(rung(FAST), stopped="3 workers died"))
    assert outcome is Outcome.INCONCLUSIVE
    assert reason == "not at every number of workers: 3 workers died"
    broken = phase(np.full(500, 5.0), failed=9)
    assert judged(ladder(rung(broken), stopped="3 workers died"))[0] is Outcome.FAIL


def test_what_was_not_measured_is_said() -> None:
    results = {result.rule: result for result in judge({Start: Start(), Limits: Limits()}, POWER)}
    assert results["golden-case-fails"].reason == "no must-pass cases are given: --golden"
    assert results["latency-over-limit"].reason == "the power went out"
    assert results["service-does-not-start"].outcome is Outcome.PASS


def test_what_was_given_and_not_reached_is_not_said_to_be_absent() -> None:
    (result,) = judge({Start: Start()}, POWER, ("golden-case-fails",), frozenset({GoldenRun}))
    assert result.reason == "the power went out"


def test_a_check_that_breaks_is_an_error_with_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(query_fails, "number")
    (result,) = judge({Ladder: ladder(rung(FAST)), Limits: Limits(), Survey: survey()}, POWER, ("query-fails",))
    assert result.outcome is Outcome.ERROR
    assert "NameError" in result.traceback
    assert "query_fails.py" in result.traceback


def test_numbers_that_are_none_stay_out_of_the_report() -> None:
    (result,) = judge(
        {Ladder: ladder(rung(closed(float("inf")), FAST)), Limits: Limits()}, POWER, ("latency-over-limit",)
    )
    assert all(np.isfinite(number) for number in result.numbers.values())


def test_only_what_a_rule_needs_is_measured() -> None:
    assert evidence_of(("golden-case-fails",)) == {GoldenRun}
    assert Ladder in evidence_of(())
    with pytest.raises(Mistake, match="is no rule that load answers"):
        evidence_of(("missing-zero-grad",))
