"""The search for a loader's settings, and what copies to the device cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from probe_programs import Asked, ask, classes, cross_entropy, mlp, trial_of, trial_on
from torch.utils.data import DataLoader, TensorDataset

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import batch_copied_slowly, loader_settings_slow
from mlcheck.probe.measure.speed import loader_search
from mlcheck.probe.measure.speed.batch_copy import BatchCopy
from mlcheck.probe.measure.speed.loader_place import loader_place
from mlcheck.probe.measure.speed.loader_search import LoaderSearch, Settings, Timed, like, smallest, worker_counts


def timed(workers: int, *seconds: float, prefetch: int = 2, start: float = 0.1) -> Timed:
    return Timed(Settings(workers, prefetch), seconds, start, 100_000_000 if workers else None)


FOUR = (timed(0, 0.2), timed(1, 0.2, 0.21), timed(2, 0.1, 0.11, 0.1), timed(4, 0.09, 0.098, 0.1))


@pytest.mark.parametrize(("step_s", "workers"), [(0.3, 1), (0.1, 2), (0.001, 4)])
def test_the_smallest_setting_as_fast_as_the_best(step_s: float, workers: int) -> None:
    faster = (*FOUR[:3], timed(4, 0.05, 0.05, 0.05))
    assert smallest(faster, step_s).workers == workers


def search(users: int, step_s: float = 0.05, **changes: Any) -> LoaderSearch:
    return replace(LoaderSearch(Settings(users), 200, step_s, FOUR, 0.02), **changes)


def test_a_slower_setting_is_told_the_one_to_write() -> None:
    verdict = loader_settings_slow.check(search(1))
    (finding,) = verdict.findings
    assert "up to 2 times as fast" in finding.message
    assert finding.help == "write DataLoader(..., num_workers=2)"
    assert "a worker takes 100 MB (PSS)" in finding.message
    assert loader_settings_slow.check(search(2)).outcome is Outcome.PASS
    assert loader_settings_slow.check(search(4)).outcome is Outcome.PASS


def test_workers_that_take_long_to_start_are_to_stay() -> None:
    slow = (timed(0, 0.2), timed(2, 0.1, 0.1, start=3.0))
    verdict = loader_settings_slow.check(search(0, timed=slow))
    assert verdict.findings[0].help == "write DataLoader(..., num_workers=2, persistent_workers=True)"


def test_a_limit_of_the_machine_is_told_and_noise_concludes_nothing() -> None:
    verdict = loader_settings_slow.check(search(2, limits=("shared memory is short",)))
    assert [finding.message for finding in verdict.findings] == ["shared memory is short"]
    verdict = loader_settings_slow.check(search(0, others=0.6))
    assert (verdict.outcome, verdict.findings) == (Outcome.INCONCLUSIVE, ())
    assert "60% of the cores" in verdict.reason


def test_a_loader_like_the_users_yields_the_same_batches() -> None:
    samples = TensorDataset(torch.arange(20.0))
    users = DataLoader(samples, batch_size=4, drop_last=True, collate_fn=lambda rows: [float(row[0]) for row in rows])
    assert list(like(users, Settings(0))) == list(users)
    alone = DataLoader(samples, batch_size=None)
    assert len(list(like(alone, Settings(0)))) == 20


def test_settings_are_searched_on_a_real_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_search, "_BLOCK_S", 0.01)
    monkeypatch.setattr(loader_search, "_ROUNDS", 1)
    monkeypatch.setattr(loader_search, "worker_counts", lambda users: [0, 1])
    asked = Asked(trial_on(TensorDataset(*classes(8, batches=1, size=1600)[0])))
    verdict = asked.verdict("loader-settings-slow")
    assert verdict.outcome in (Outcome.PASS, Outcome.INCONCLUSIVE)
    assert "is the smallest setting as fast as the best" in verdict.summary
    assert verdict.figures[0].data["rows"][0][0] == "num_workers=0"


def test_a_quota_limits_the_workers_that_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader_search, "usable_cores", lambda: 2.0)
    assert worker_counts(6) == [0, 1, 2, 4, 6]


def test_the_line_that_makes_the_loader(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("a = DataLoader(x)\nb = data.DataLoader(x,\n    num_workers=4)\n")
    assert loader_place(Location(str(path), 1), 4).line == 2
    assert loader_place(Location(str(path), 1), 3).line == 1
    assert loader_place(Location(str(tmp_path / "absent.py"), 9), 3).line == 9


def test_copies_to_the_device_are_weighed_against_the_step() -> None:
    ordinary = BatchCopy(0.02, 0.01, 0.004, 100.0, pins=False, batches=2000)
    (finding,) = batch_copied_slowly.check(ordinary).findings
    assert "a batch of 100 MB takes 10 ms to the device (10 GB/s, not pinned), and a step 20 ms" in finding.message
    assert "33% of both is copying; pinned, it would take 4 ms" in finding.message
    assert "up to 1.5 times as fast" in finding.message
    assert "pin_memory=True" in finding.help
    assert "pinned" not in batch_copied_slowly.check(replace(ordinary, pins=True)).findings[0].help
    assert batch_copied_slowly.check(replace(ordinary, step_s=0.5)).outcome is Outcome.PASS
    assert batch_copied_slowly.check(replace(ordinary, batches=40)).outcome is Outcome.PASS  # 0.4 s a pass


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device to copy to")
def test_without_a_device_copies_are_not_run() -> None:
    verdict = ask("batch-copied-slowly", trial_of(mlp(), classes(8), cross_entropy))
    assert verdict.outcome is Outcome.SKIP
    assert "no CUDA device" in verdict.reason
