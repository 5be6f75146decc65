"""Judges of latency and of failing queries: what they fail, what they pass, what they leave open and why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from load_phases import Casualty, closed, ladder, phase, rung, survey

from mlcheck.core.finding import limit_rows
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.load.checks import (
    latency_over_limit,
    query_fails,
    worst_case_latency_over_limit,
)
from mlcheck.load.ladder import COMPLEX
from mlcheck.load.limits import Errors, Latencies, Latency, Limits, Plan

P99 = Limits(latency=Latencies(random=Latency(p99_ms=50)))

FAST = np.full(1000, 10.0)


def slow(share: float, n: int = 1000) -> np.ndarray:
    """10 ms, and 80 ms for a share of the queries, spread evenly."""
    return np.where(np.arange(n) % round(1 / share) == 0, 80.0, 10.0)


def test_latency_under_its_limit_passes_with_its_numbers() -> None:
    found = latency_over_limit.check(ladder(rung(closed(140), phase(FAST))), P99)
    assert found.outcome is Outcome.PASS
    assert found.summary == "1 worker at 100/s: p50 10 ms [10, 10], p99 10 ms [10, 10]"
    assert found.looked_at == 1000
    assert [figure.kind for figure in found.figures] == ["table", "table", "curves", "curves"]
    assert limit_rows(found.figures[0]) == [["random p99", "<= 50 ms", "10 ms [10, 10]", "1", "kept"]]


def test_a_limit_is_not_kept_while_a_slow_stretch_may_break_it() -> None:
    """At the median few enough queries are slow, and all of them came together."""
    stretch = np.where(np.arange(1000) < 450, 80.0, 10.0)
    limits = Limits(latency=Latencies(random=Latency(p50_ms=50)))
    found = latency_over_limit.check(ladder(rung(phase(stretch))), limits)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert found.reason.endswith("its interval reaches over the limit: measure longer")


def test_latency_over_its_limit_fails_where_it_is() -> None:
    found = latency_over_limit.check(ladder(rung(phase(FAST)), rung(phase(slow(0.05), workers=2), workers=2)), P99)
    assert found.outcome is Outcome.FAIL
    (finding,) = found.findings
    assert finding.message == (
        "p99 at 2 workers is 80 ms [80, 80], over the limit of 50 ms, at 100 random queries a second; "
        "50 of 1,000 queries took longer"
    )


def test_too_few_queries_are_undecided_and_say_how_many_more() -> None:
    found = latency_over_limit.check(ladder(rung(phase(FAST[:200]))), P99)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "needs 259 more queries (3 s) to be decided" in found.reason


def test_a_share_at_the_limit_is_undecided() -> None:
    assert latency_over_limit.check(ladder(rung(phase(slow(0.01)))), P99).outcome is Outcome.INCONCLUSIVE


def test_without_a_limit_nothing_passes() -> None:
    found = latency_over_limit.check(ladder(rung(phase(FAST))), Limits())
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "set [latency.random]" in found.reason


@pytest.mark.parametrize("disturbance", [{"foreign": 0.3}, {"waited": 0.2}])
def test_noise_excuses_a_broken_limit_and_does_not_spoil_a_kept_one(disturbance: dict[str, float]) -> None:
    broken = latency_over_limit.check(ladder(rung(phase(slow(0.05), **disturbance))), P99)
    assert broken.outcome is Outcome.INCONCLUSIVE
    assert "NOISY" in broken.reason
    assert latency_over_limit.check(ladder(rung(phase(FAST, **disturbance))), P99).outcome is Outcome.PASS


def test_workers_that_wait_because_there_are_more_than_cores_are_no_noise() -> None:
    crowded = phase(slow(0.05), workers=4, waited=0.5, cores=2.0)
    assert latency_over_limit.check(ladder(rung(crowded, workers=4)), P99).outcome is Outcome.FAIL


def test_a_harness_that_was_late_itself_accuses_nobody() -> None:
    late = phase(slow(0.05))
    taken = late.samples
    waiting = replace(taken, free=taken.due - 1, start=taken.due + 20_000_000, end=taken.end + 20_000_000)
    found = latency_over_limit.check(ladder(rung(replace(late, samples=waiting))), P99)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "the harness itself began queries up to 20 ms late" in found.reason


def test_queries_without_an_answer_count_as_long_as_they_waited() -> None:
    whole = phase(FAST)
    lost = replace(whole, samples=whole.samples.take(slice(0, 900)))
    assert len(lost.unanswered) == 100
    assert lost.unanswered.min() >= 1000
    assert latency_over_limit.check(ladder(rung(lost)), P99).outcome is Outcome.FAIL


def test_a_mean_is_judged_by_its_interval() -> None:
    limits = Limits(latency=Latencies(random=Latency(mean_ms=12)))
    random = np.random.default_rng(0)
    for middle, outcome in ((10, Outcome.PASS), (12, Outcome.INCONCLUSIVE), (14, Outcome.FAIL)):
        values = random.normal(middle, 1, 800)
        assert latency_over_limit.check(ladder(rung(phase(values - values.mean() + middle))), limits).outcome is outcome


def test_a_rate_that_no_number_of_workers_carries() -> None:
    plan = Plan(rate_qps=500)
    few = ladder(rung(closed(100)), rung(closed(200, workers=2), workers=2), plan=plan)
    found = latency_over_limit.check(few, P99)
    assert found.outcome is Outcome.FAIL
    assert "2 workers can answer" in found.findings[0].message
    assert "and 500 are to be expected" in found.findings[0].message


def test_an_overload_on_a_busy_machine_is_undecided() -> None:
    busy = ladder(rung(closed(100, foreign=0.5)), plan=Plan(rate_qps=500))
    found = latency_over_limit.check(busy, P99)
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "NOISY" in found.reason


def test_a_rate_that_enough_workers_carry_is_judged_there() -> None:
    plan = Plan(rate_qps=500)
    enough = ladder(
        rung(closed(100)), rung(closed(900, workers=8), phase(FAST, workers=8, rate=500), workers=8), plan=plan
    )
    found = latency_over_limit.check(enough, P99)
    assert found.outcome is Outcome.PASS
    assert "1 worker: overloaded, carries" in found.summary


def test_the_worst_queries_have_their_own_limit_and_the_slowest_are_listed() -> None:
    limits = Limits(latency=Latencies(complex=Latency(p99_ms=50)))
    both = rung(closed(100), closed(25, queries=COMPLEX), phase(FAST), phase(slow(0.1), queries=COMPLEX))
    found = worst_case_latency_over_limit.check(ladder(both), limits, survey())
    assert found.outcome is Outcome.FAIL
    assert "their p99 service time is 4 times that of random ones" in found.summary
    assert found.figures[-1].data["rows"] == [["second", 9.0, 12.0], ["first", 2.0, 3.0]]
    nothing = worst_case_latency_over_limit.check(ladder(rung(phase(FAST))), limits, survey())
    assert nothing.outcome is Outcome.SKIP


@pytest.mark.parametrize(
    ("failed", "allowed", "outcome"),
    [
        (0, 0.0, Outcome.PASS),
        (1, 0.0, Outcome.FAIL),
        (1, 0.1, Outcome.PASS),
        (9, 0.01, Outcome.INCONCLUSIVE),
        (30, 0.01, Outcome.FAIL),
    ],
)
def test_failed_queries(failed: int, allowed: float, outcome: Outcome) -> None:
    errors = ({"error": "ValueError: too long", "query": 1, "count": failed, "traceback": "T"},) if failed else ()
    seen = ladder(rung(phase(FAST, failed=failed, errors=errors)))
    found = query_fails.check(seen, survey(), Limits(errors=Errors(max_rate=allowed)))
    assert found.outcome is outcome
    if outcome is Outcome.FAIL:
        asked = plural(failed, "query")
        assert found.findings[0].message == f"{asked} raised ValueError: too long (query 'second')"
        assert found.traceback == "T"
    if outcome is Outcome.PASS and not failed:
        assert "95 % sure that fewer than 0.3 % do" in found.summary


def test_a_worker_that_died_is_named_with_its_query() -> None:
    grave = Casualty(4, "was ended by SIGKILL", 1, "random", "", "out of memory")
    found = query_fails.check(ladder(rung(phase(FAST, casualties=(grave,)))), survey(), Limits(errors=Errors(1.0)))
    assert found.outcome is Outcome.FAIL
    assert found.findings[0].message == "one of 4 workers was ended by SIGKILL while it answered query 'second'"
    assert found.traceback == "out of memory"
