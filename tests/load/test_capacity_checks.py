"""Judges of memory and of how throughput grows with workers, on numbers written by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from load_phases import Memory, closed, ladder, leaking, phase, rung

from mlcheck.core.outcome import Outcome
from mlcheck.load.checks import (
    memory_grows,
    memory_over_limit,
    throughput_does_not_scale,
)
from mlcheck.load.limits import Limits, Scaling
from mlcheck.load.limits import Memory as MemoryLimits

FAST = np.full(1000, 10.0)


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


def rungs(*capacities: float) -> list[Any]:
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


def test_more_than_a_worker_more_can_bring_comes_of_fewer_threads() -> None:
    one, two = rungs(100, 400)
    told = throughput_does_not_scale.check(ladder(replace(one, threads=2), two), Limits()).summary
    assert told.endswith("a worker with 1 CPU thread answers 2 times what one with 2 does: try `--threads 1`")
    assert "threads" not in throughput_does_not_scale.check(ladder(one, two), Limits()).summary
