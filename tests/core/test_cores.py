"""A container's quota counts as well as the cores that the process may run on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mlcheck.core.cores import cores, quota, usable_cores


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


def test_no_more_cores_are_allowed_than_there_are() -> None:
    assert 1 <= cores() <= (os.cpu_count() or 1)
