"""Every judge on numbers written by hand: what it fails, what it passes, what it leaves open and why."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from load_phases import Casualty, Memory, closed, ladder, leaking, phase, rung, survey

from mlcheck.core.finding import limit_rows
from mlcheck.core.outcome import Outcome
from mlcheck.load.cases import Case, Conduct, GoldenRun
from mlcheck.load.checks import (
    answer_not_finite,
    answer_not_repeatable,
    bad_query_breaks_service,
    batch_changes_answer,
    frequent_queries_wrong,
    golden_case_fails,
    latency_over_limit,
    memory_grows,
    memory_over_limit,
    quality_below_limit,
    query_fails,
    satisfaction_falls,
    serves_in_training_mode,
    serves_with_gradients,
    service_does_not_start,
    side_by_side_unjudged,
    throughput_does_not_scale,
    worse_than_live,
    worst_case_latency_over_limit,
)
from mlcheck.load.ladder import COMPLEX
from mlcheck.load.limits import Errors, Latencies, Latency, Limits, Plan, Quality, Scaling
from mlcheck.load.limits import Memory as MemoryLimits
from mlcheck.load.quality import Labelled, LabelledRun
from mlcheck.load.satisfaction import Ratings
from mlcheck.load.sbs import Judgement, Judgements
from mlcheck.load.start import Start

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
        assert found.findings[0].message == f"{failed} queries raised ValueError: too long (query 'second')"
        assert found.traceback == "T"
    if outcome is Outcome.PASS and not failed:
        assert "95 % sure that fewer than 0.3 % do" in found.summary


def test_a_worker_that_died_is_named_with_its_query() -> None:
    grave = Casualty(4, "was ended by SIGKILL", 1, "random", "", "out of memory")
    found = query_fails.check(ladder(rung(phase(FAST, casualties=(grave,)))), survey(), Limits(errors=Errors(1.0)))
    assert found.outcome is Outcome.FAIL
    assert found.findings[0].message == "one of 4 workers was ended by SIGKILL while it answered query 'second'"
    assert found.traceback == "out of memory"


def memories(*totals: float) -> tuple[Memory, ...]:
    return tuple(Memory(rss=total, pss=total * 0.8, uss=total * 0.7) for total in totals)


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [
        (MemoryLimits(), Outcome.INCONCLUSIVE),
        (MemoryLimits(per_worker_mb=120, total_mb=200), Outcome.PASS),
        (MemoryLimits(per_worker_mb=90), Outcome.FAIL),
        (MemoryLimits(total_mb=150), Outcome.FAIL),
    ],
)
def test_memory_of_each_and_of_all(limits: MemoryLimits, outcome: Outcome) -> None:
    seen = ladder(
        rung(phase(FAST), memory=memories(100)), rung(phase(FAST, workers=2), workers=2, memory=memories(100, 100))
    )
    found = memory_over_limit.check(seen, Limits(memory=limits))
    assert found.outcome is outcome
    assert found.numbers["MB for one worker more"] == pytest.approx(80)


def test_a_peak_between_two_measures_counts() -> None:
    sightings = tuple(replace(one, rss_mb=150.0) for one in leaking(0.0, looks=3))
    found = memory_over_limit.check(
        ladder(rung(phase(FAST, sightings=sightings), memory=memories(100))), Limits(memory=MemoryLimits(total_mb=125))
    )
    assert found.outcome is Outcome.FAIL
    assert "all workers together take 130 MB with 1 worker" in found.findings[0].message


@pytest.mark.parametrize(
    ("growth", "stated", "outcome"),
    [
        (10.0, None, Outcome.WARN),
        (10.0, 1.0, Outcome.FAIL),
        (10.0, 20.0, Outcome.PASS),
        (0.5, None, Outcome.PASS),
        (0.0, 1.0, Outcome.PASS),
        (-5.0, 1.0, Outcome.PASS),
    ],
)
def test_growth_of_memory(growth: float, stated: float | None, outcome: Outcome) -> None:
    seen = ladder(rung(phase(FAST, sightings=leaking(growth))))
    found = memory_grows.check(seen, Limits(memory=MemoryLimits(growth_mb_per_1k_queries=stated)))
    assert found.outcome is outcome


def test_one_jump_of_memory_is_no_leak() -> None:
    steps = tuple(replace(one, anon_mb=50.0 + 30.0 * (one.queries > 1500)) for one in leaking(0.0))
    assert memory_grows.check(ladder(rung(phase(FAST, sightings=steps))), Limits()).outcome is Outcome.PASS


def test_too_few_looks_at_the_memory_decide_nothing() -> None:
    seen = ladder(rung(phase(FAST, sightings=leaking(50.0, looks=10))))
    assert memory_grows.check(seen, Limits()).outcome is Outcome.INCONCLUSIVE


def rungs(*capacities: float) -> list:
    sizes = [1, 2, 4, 8][: len(capacities)]
    return [rung(closed(capacity, workers=n), workers=n) for n, capacity in zip(sizes, capacities, strict=True)]


def test_a_dip_is_no_knee_where_more_workers_do_better() -> None:
    found = throughput_does_not_scale.check(ladder(*rungs(100, 190, 150, 300)), Limits())
    assert found.summary.endswith("no knee up to 8")


def test_the_knee_is_named() -> None:
    found = throughput_does_not_scale.check(ladder(*rungs(100, 190, 200, 180)), Limits())
    assert found.outcome is Outcome.INCONCLUSIVE
    assert "the knee is at 2: 4 workers change it by +5%, none does better" in found.summary


@pytest.mark.parametrize(
    ("capacities", "cores", "outcome"),
    [
        ((100, 190), 8, Outcome.PASS),
        ((100, 110), 8, Outcome.FAIL),
        ((100, 190, 195), 2, Outcome.PASS),
        ((100, 110), 1, Outcome.INCONCLUSIVE),
    ],
)
def test_efficiency_is_judged_while_there_are_cores(
    capacities: tuple[float, ...], cores: float, outcome: Outcome
) -> None:
    limits = Limits(scaling=Scaling(min_efficiency=0.7))
    assert throughput_does_not_scale.check(ladder(*rungs(*capacities), cores=cores), limits).outcome is outcome


def test_poor_scaling_on_a_busy_machine_is_undecided() -> None:
    noisy = [rung(closed(100)), rung(closed(110, workers=2, foreign=0.5), workers=2)]
    found = throughput_does_not_scale.check(ladder(*noisy), Limits(scaling=Scaling(min_efficiency=0.7)))
    assert found.outcome is Outcome.INCONCLUSIVE


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


@pytest.mark.parametrize(
    ("differences", "outcome"),
    [
        ([1.0, 0.0, 1.0, 2.0] * 20, Outcome.PASS),
        ([-1.0, 0.0, 0.9] * 20, Outcome.INCONCLUSIVE),
        ([-1.0, -2.0, 0.0] * 20, Outcome.FAIL),
    ],
)
def test_satisfaction(differences: list[float], outcome: Outcome) -> None:
    found = satisfaction_falls.check(Ratings(tuple(differences), 4.0, 4.0, 3), Limits())
    assert found.outcome is outcome
    assert found.figures[0].data["labels"] == ["better", "equal", "worse"]


def labelled(right: int, wrong: int, live_right: int = -1, frequency: float = 1.0, label: str = "x") -> list[Labelled]:
    rows = []
    for n in range(right + wrong):
        said = label if n < right else "other"
        live = None if live_right < 0 else label if n < live_right else "other"
        rows.append(Labelled(f"{label}{n}", f"{label}{n}{frequency}", label, said, live, "", frequency, None))
    return rows


@pytest.mark.parametrize(
    ("right", "wrong", "outcome"), [(990, 10, Outcome.PASS), (900, 100, Outcome.INCONCLUSIVE), (800, 200, Outcome.FAIL)]
)
def test_accuracy_is_judged_by_the_ends_of_its_interval(right: int, wrong: int, outcome: Outcome) -> None:
    found = quality_below_limit.check(
        LabelledRun(tuple(labelled(right, wrong))), Limits(quality=Quality(accuracy_min=0.9))
    )
    assert found.outcome is outcome


def test_a_class_that_is_never_found_fails_behind_a_good_average() -> None:
    rows = labelled(980, 0) + labelled(0, 20, label="rare")
    limits = Limits(quality=Quality(accuracy_min=0.9, class_recall_min=0.5))
    found = quality_below_limit.check(LabelledRun(tuple(rows)), limits)
    assert found.outcome is Outcome.FAIL
    assert "the recall of class 'rare' is 0.00%" in found.findings[0].message
    assert len(found.findings) == 1


def test_without_a_limit_quality_is_measured_and_not_passed() -> None:
    assert quality_below_limit.check(LabelledRun(tuple(labelled(9, 1))), Limits()).outcome is Outcome.INCONCLUSIVE


def test_frequent_queries() -> None:
    limits = Limits(quality=Quality(weighted_accuracy_min=0.8))
    once = LabelledRun(tuple(labelled(9, 1)))
    assert frequent_queries_wrong.check(once, limits).outcome is Outcome.SKIP
    good = labelled(300, 0, frequency=50.0) + labelled(50, 50)
    assert frequent_queries_wrong.check(LabelledRun(tuple(good)), limits).outcome is Outcome.PASS
    bad = labelled(0, 300, frequency=50.0) + labelled(900, 0)
    assert frequent_queries_wrong.check(LabelledRun(tuple(bad)), limits).outcome is Outcome.FAIL
    assert frequent_queries_wrong.check(LabelledRun(tuple(bad)), Limits()).outcome is Outcome.WARN
    assert frequent_queries_wrong.check(LabelledRun(tuple(good)), Limits()).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("right", "live", "n", "outcome"),
    [
        (950, 900, 1000, Outcome.PASS),
        (800, 900, 1000, Outcome.FAIL),
        (90, 90, 100, Outcome.INCONCLUSIVE),
        (10_000, 10_000, 10_000, Outcome.PASS),
    ],
)
def test_against_the_live_model(right: int, live: int, n: int, outcome: Outcome) -> None:
    found = worse_than_live.check(LabelledRun(tuple(labelled(right, n - right, live))), Limits())
    assert found.outcome is outcome


def test_without_live_answers_nothing_is_compared() -> None:
    assert worse_than_live.check(LabelledRun(tuple(labelled(9, 1))), Limits()).outcome is Outcome.SKIP


@pytest.mark.parametrize(
    ("wins", "losses", "outcome"), [(60, 40, Outcome.INCONCLUSIVE), (65, 35, Outcome.PASS), (35, 65, Outcome.FAIL)]
)
def test_side_by_side(wins: int, losses: int, outcome: Outcome) -> None:
    said = ["left" if (n % 2 == 0) == (n < wins) else "right" for n in range(wins + losses)]
    rows = tuple(Judgement(f"i{n}", "Ada", choice, n % 2 == 0) for n, choice in enumerate(said))
    found = side_by_side_unjudged.check(Judgements(rows, wins + losses), Limits())
    assert found.outcome is outcome
    if outcome is Outcome.INCONCLUSIVE:
        assert "110 more wins and losses would show it" in found.reason
