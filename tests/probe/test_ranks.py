"""Programs on two ranks: each fault is found and named, and what only looks like one is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from probe_programs import classes, cross_entropy, mlp, trial_of
from rank_faults import FAULTS, SOUND
from rank_programs import alarms, changed, judge, run_ranks

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.ranks.run import RankRun
from mlcheck.trial.ranks.story import Collective, RankStory
from mlcheck.trial.trial import EntryOptions, Source


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_and_named_and_no_other_rule_alarms(name: str, tmp_path: Path) -> None:
    fault = FAULTS[name]
    found = alarms(run_ranks(changed(*fault.changes), tmp_path))
    assert set(found) == set(fault.rules), found
    assert fault.words in found[fault.rules[0]]


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_program_alarms_nobody(name: str, tmp_path: Path) -> None:
    run = run_ranks(changed(*SOUND[name]), tmp_path)
    assert alarms(run) == {}
    assert run.whole
    assert judge("ranks-drift-apart", run).outcome is Outcome.PASS


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_sound_programs_alarm_nobody_with_other_seeds(seed: int, tmp_path: Path) -> None:
    name = list(SOUND)[seed % len(SOUND)]
    assert alarms(run_ranks(changed(*SOUND[name], seed=seed), tmp_path)) == {}


@pytest.mark.parametrize(
    ("entry", "text", "slots", "fits"),
    [
        ("model_def:T", "rows = split(7 + context.distributed.get_rank())", 1, True),
        ("model_def:T", "if self.context.distributed.get_size() > 1: ...", 1, True),
        ("model_def:T", "rows = split(7)", 1, False),
        ("model_def:T", "rows = split(7)", 2, True),
        ("train.py", "rows = split(torch.distributed.get_rank())", 1, False),
    ],
)
def test_a_trial_that_asks_for_its_rank_is_meant_for_several(
    entry: str, text: str, slots: int, fits: bool, tmp_path: Path
) -> None:
    file = tmp_path / "model_def.py"
    file.write_text(f"{text}\n", encoding="utf-8")
    trial = trial_of(mlp(), classes(8), cross_entropy)
    trial.entry, trial.slots, trial.source = (str(file), 1), slots, Source(entry, EntryOptions(), str(tmp_path))
    assert ("meant for one process" not in RankRun.unfit(trial)) is fits


@pytest.mark.parametrize(("computing", "outcome"), [(False, Outcome.FAIL), (True, Outcome.INCONCLUSIVE)])
def test_ranks_that_compute_as_the_time_is_up_do_not_wait_for_ever(computing: bool, outcome: Outcome) -> None:
    calls = [Collective("all_reduce", (1,), "float32", -1, (0, 1), ("a.py", 3))]
    waits = RankStory(0, events=[*calls], open=calls[0])
    run = RankRun((waits, RankStory(1, computing=computing)), "", Location("a.py", 1))
    assert judge("rank-dies-or-hangs", run).outcome is outcome
    assert (judge("collective-in-rank-branch", run).outcome in (Outcome.FAIL, Outcome.WARN)) is not computing
