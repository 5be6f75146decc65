"""Where the time of a loop goes: judged by numbers, and measured where loading surely sleeps."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import workers_fight_for_cores
from mlcheck.probe.checks.loader_slower_than_step import check
from mlcheck.probe.measure.speed.loading_lines import LoadingLines
from mlcheck.probe.measure.speed.loading_shares import Busy
from mlcheck.probe.measure.speed.loop_rounds import Round
from mlcheck.probe.measure.speed.step_time import StepTime
from mlcheck.probe.measure.speed.time_causes import Lost, cause
from mlcheck.probe.measure.speed.time_told import figures
from mlcheck.trial.observe.watch import Activity, Phase

PLACE = Location("data.py", 7, symbol="Set.__getitem__")
READS = LoadingLines("py-spy", 0.98, 0.01, ((PLACE, 0.9),), seen=100)
IDLE = Activity(main=0.02, delay=0.01, waits={"poll": 0.98, "run": 0.02})
SLOW = Round(waits=0.2, step=0.1, load=0.29, alone=0.1)
FAST = Round(waits=0.001, step=0.1, load=0.02, alone=0.1)
Waits = dict[str, float]


def phase(worker: Activity, trainer: Activity = IDLE, others: float | None = 0.02, workers: int = 1) -> Phase:
    return Phase(3.0, 4, trainer, worker, workers, others, 0.1, 0.1)


def seen(
    loading: Activity,
    rounds: tuple[Round, ...] = (SLOW, SLOW, SLOW),
    workers: int = 1,
    lines: LoadingLines = READS,
    others: float | None = 0.02,
    trainer: Activity = IDLE,
) -> StepTime:
    loads = phase(loading, trainer, others, workers)
    steps = Activity(user=0.9, main=0.9, delay=0.05, waits={"run": 1.0})
    phases = {"loop": phase(loading, steps, others, workers), "load": loads, "step": phase(IDLE, steps, others)}
    return StepTime(rounds, workers, 0, phases, lines)


def working(main: float, delay: float = 0.02, system: float = 0.0, read: float = 0.0, **waits: float) -> Activity:
    return Activity(main, system, main, delay, {"run": main, **waits}, read)


@pytest.mark.parametrize(
    ("loading", "lines", "busy", "told"),
    [
        (working(0.97), READS, Busy.CPU, "computes"),
        (working(0.3, delay=0.69), READS, Busy.CPU, "computes"),
        (working(0.97), replace(READS, reading=0.1, collating=0.88), Busy.COLLATE, "joins samples"),
        (working(0.1, disk=0.9), READS, Busy.DISK, "waits for the disk"),
        (working(0.5, system=0.45, read=4e8, disk=0.5), READS, Busy.DISK, "waits for the disk"),
        (working(0.02, socket=0.97), READS, Busy.REMOTE, "another machine"),
        (working(0.02, poll=0.97), READS, Busy.REMOTE, "another machine"),
        (working(0.02, sleep=0.97), READS, Busy.SLEEP, "sleeps"),
        (working(0.24, lock=0.74), READS, Busy.LOCK, "waits for a lock"),
        (working(0.24, futex=0.74), replace(READS, locking=0.7), Busy.LOCK, "waits for a lock"),
        (working(0.24, futex=0.74), READS, Busy.UNKNOWN, "what loading is busy with was not seen"),
        (working(0.1, thread=0.9), READS, Busy.THREADS, "waits for threads of its own process"),
        (replace(working(0.1, thread=0.9), user=0.8), READS, Busy.CPU, "computes"),
        (working(0.35, disk=0.3, lock=0.33), READS, Busy.MIXED, "and waits for a lock"),
    ],
)
def test_what_loading_is_busy_with_names_the_cause(
    loading: Activity, lines: LoadingLines, busy: Busy, told: str
) -> None:
    found = cause(seen(loading, lines=lines))
    assert (found.lost, found.busy) == (Lost.WAITING, busy)
    (finding,) = check(seen(loading, lines=lines)).findings
    assert told in finding.message
    assert "waits for its data 67% of the time" in finding.message
    assert "up to 3 times as fast" in finding.message
    assert finding.location == PLACE
    assert finding.help


def test_batches_that_the_trainer_unpickles_are_told_from_workers_that_wait() -> None:
    lines = replace(READS, reading=0.02, collating=0.1)
    busy = Activity(main=0.9, delay=0.05, waits={"run": 0.95, "poll": 0.05})
    assert cause(seen(working(0.1, poll=0.88), lines=lines, trainer=busy)).busy is Busy.HANDOVER
    mapping = Activity(main=0.06, delay=0.82, waits={"run": 0.87, "socket": 0.1, "poll": 0.03})
    assert cause(seen(working(0.02, poll=0.94), lines=lines, trainer=mapping)).busy is Busy.HANDOVER
    assert cause(seen(working(0.02, poll=0.9), lines=lines)).busy is Busy.UNKNOWN
    delayed = replace(IDLE, delay=0.3)
    assert cause(seen(working(0.02, poll=0.9), lines=lines, trainer=delayed, others=0.9)).lost is Lost.UNCLEAR


def test_loading_without_workers_takes_turns_with_training() -> None:
    loading = working(0.97)
    found = StepTime((replace(SLOW, load=0.2),) * 3, 0, 0, {"load": phase(IDLE, loading, workers=0)}, READS)
    (finding,) = check(found).findings
    assert "take turns, as there are no worker processes: 67% of the loop is loading" in finding.message
    assert "num_workers=2" in finding.help
    assert workers_fight_for_cores.check(found).outcome is Outcome.SKIP


@pytest.mark.parametrize(
    "rounds",
    [
        (FAST, FAST, FAST),
        (Round(0.003, 0.001, 0.003, 0.001),) * 3,  # three quarters of next to nothing
        (Round(0.02, 0.18, 0.15, 0.18),) * 3,
    ],
)
def test_what_is_fast_enough_is_silent(rounds: tuple[Round, ...]) -> None:
    verdict = check(seen(working(0.97), rounds))
    assert verdict.outcome is Outcome.PASS
    assert not verdict.findings
    assert "wait for data" in verdict.summary


def test_five_seconds_a_pass_are_worth_a_word() -> None:
    rounds = (Round(0.003, 0.001, 0.003, 0.001),) * 3
    assert check(replace(seen(working(0.97), rounds), batches=10_000)).outcome is Outcome.WARN


def test_rounds_that_differ_are_inconclusive() -> None:
    verdict = check(seen(working(0.97), (FAST, SLOW, FAST, SLOW)))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "1%, 67%" in verdict.reason


def test_a_noisy_machine_gives_no_verdict_on_anybodys_speed() -> None:
    near = Round(0.05, 0.15, 0.2, 0.15)
    for verdict in (
        check(seen(working(0.6, delay=0.38), (near,) * 3, others=0.5)),
        workers_fight_for_cores.check(seen(working(0.6, delay=0.38), (near,) * 3, others=0.5)),
    ):
        assert verdict.outcome is Outcome.INCONCLUSIVE
        assert "other programs used 50% of 4 cores" in verdict.reason


def test_noise_that_may_hide_a_slow_loader_is_no_pass() -> None:
    hiding = Round(0.001, 0.3, 0.1, 0.1)
    found = seen(working(0.3, delay=0.6), (hiding,) * 3, others=0.8)
    found.phases["loop"] = phase(working(0.3, delay=0.6), working(0.1, delay=0.85), 0.8)
    assert cause(found).lost is Lost.UNCLEAR
    assert cause(seen(working(0.3), (Round(0.001, 0.1, 0.02, 0.1),) * 3, others=0.8)).lost is Lost.NOTHING


def test_what_waits_for_no_core_is_told_on_a_noisy_machine_too() -> None:
    assert cause(seen(working(0.02, socket=0.97), others=0.9)).busy is Busy.REMOTE


def test_a_lock_makes_the_rounds_differ_and_is_told_by_what_it_takes_by_itself() -> None:
    """Batches of workers that take turns come in bursts: a round of a few sees many of them, or none."""
    rounds = tuple(Round(waits, 0.03, 0.076, 0.02) for waits in (0.002, 0.06, 0.05))
    locked = working(0.24, lock=0.74)
    found = cause(seen(locked, rounds, workers=4))
    assert (found.lost, found.busy, round(found.share, 2)) == (Lost.WAITING, Busy.LOCK, 0.55)
    close = tuple(replace(each, load=0.024) for each in rounds)
    assert cause(seen(locked, close, workers=4)).lost is Lost.UNCLEAR
    robbed = Activity(user=0.5, main=0.5, delay=0.45, waits={"run": 1.0})
    slowed = seen(locked, tuple(Round(0.03, 0.05, 0.076, 0.02) for _ in range(3)), workers=4)
    slowed.phases["loop"] = phase(locked, robbed, 0.02, 4)
    assert cause(slowed).lost is Lost.WAITING  # the loop takes what its loader takes, cores or not


def test_two_workers_that_take_turns_wait_half_the_time() -> None:
    assert cause(seen(working(0.52, lock=0.44), workers=2)).busy is Busy.LOCK
    assert cause(seen(working(0.7, lock=0.28), workers=2)).busy is Busy.CPU


def test_parts_that_were_not_seen_are_not_told_of_a_mixture() -> None:
    (finding,) = check(seen(working(0.4, futex=0.35, disk=0.2))).findings
    assert "computes, and waits for the disk" in finding.message


def test_a_lock_is_told_on_a_busy_machine_by_the_work_that_is_done_one_after_the_other() -> None:
    rounds = (Round(0.02, 0.07, 0.09, 0.1, needed=0.015),) * 3
    crowded = working(0.24, delay=0.38, lock=0.38)
    found = cause(seen(crowded, rounds, workers=4, others=0.5))
    assert (found.lost, found.busy, bool(found.why)) == (Lost.WAITING, Busy.LOCK, True)
    (finding,) = check(seen(crowded, rounds, workers=4, others=0.5)).findings
    assert "a batch takes 86.4 ms to load and 15 ms to train on" in finding.message
    close = tuple(replace(each, needed=0.06) for each in rounds)
    assert cause(seen(crowded, close, workers=4, others=0.5)).lost is Lost.UNCLEAR
    unknown = tuple(replace(each, needed=math.inf) for each in rounds)
    assert cause(seen(crowded, unknown, workers=4, others=0.5)).lost is Lost.UNCLEAR


def test_processor_time_alone_tells_where_it_is_far_from_close() -> None:
    verdict = check(seen(working(0.4, delay=0.6), (Round(0.9, 0.1, 1.0, 0.1),) * 3, others=0.5))
    assert verdict.outcome is Outcome.WARN
    assert "by processor time and waiting alone" in verdict.findings[0].message


def test_workers_that_take_the_trainers_cores_are_told_from_a_slow_loader() -> None:
    slowed = Round(waits=0.01, step=0.2, load=0.1, alone=0.1)
    robbed = Activity(user=0.5, main=0.5, delay=0.45, waits={"run": 1.0})
    found = seen(working(0.5, delay=0.48), (slowed,) * 3, workers=8)
    found.phases["loop"] = phase(working(0.5, delay=0.48), robbed, 0.02, 8)
    assert cause(found).lost is Lost.FIGHTING
    (finding,) = workers_fight_for_cores.check(found).findings
    assert "a step takes 200 ms while 8 workers load, and 100 ms when they rest" in finding.message
    assert "without a core 45% of the time" in finding.message
    assert "num_workers=3" in finding.help
    assert check(found).outcome is Outcome.PASS


def test_a_system_that_tells_nothing_names_no_cause_and_says_so() -> None:
    found = StepTime((SLOW,) * 3, 2, 0, {}, LoadingLines(why_not="py-spy is not installed"))
    verdict = check(found)
    assert verdict.outcome is Outcome.WARN
    assert "is not told by this system" in verdict.findings[0].message
    (text,) = [figure.data["text"] for figure in figures(found, cause(found)) if figure.kind == "text"]
    assert "there is no /proc here" in text
    assert "py-spy is not installed" in text
