"""A container's quota counts as well as the cores that the process may run on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mlcheck.core.cores import cores, idle_cores, quota, usable_cores


@pytest.mark.parametrize(
    ("files", "most"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, float("inf")),
        ({"cpu/cpu.cfs_quota_us": "50000", "cpu/cpu.cfs_period_us": "100000"}, 0.5),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, float("inf")),
        ({"cpu.max": "nonsense"}, float("inf")),
        ({}, float("inf")),
    ],
)
def test_a_quota_of_cores(files: dict[str, str], most: float, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert quota(tmp_path) == most
    assert usable_cores(tmp_path) == min(most, cores())


@pytest.mark.parametrize(("busy", "idle"), [(0.2, 4), (0.9, 3), (3.1, 1), (50.0, 1)])
def test_a_core_that_others_keep_busy_is_not_idle(busy: float, idle: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (busy, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr("mlcheck.core.cores.usable_cores", lambda: 8.0)
    assert idle_cores() == idle
    monkeypatch.setattr("mlcheck.core.cores.usable_cores", lambda: 0.5)
    assert idle_cores() == 1


def test_where_nothing_tells_how_busy_they_are_all_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "getloadavg")
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setattr("mlcheck.core.cores.usable_cores", lambda: 2.0)
    assert idle_cores() == 2


def test_no_more_cores_are_allowed_than_there_are() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
