"""Programs on two ranks: each fault is found and named, and what only looks like one is not."""

from __future__ import annotations

from pathlib import Path

import pytest
from rank_faults import FAULTS, SOUND
from rank_programs import alarms, changed, judge, run_ranks

from mlcheck.core.outcome import Outcome


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
