"""What a container leaves of a machine, read as the kernel writes it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from mlcheck.core.cores import cores, quota, usable_cores
from mlcheck.trial.observe.host import proportional_memory, shared_memory


@pytest.mark.parametrize(("text", "share"), [("150000 100000\n", 1.5), ("max 100000\n", math.inf), ("?", math.inf)])
def test_a_quota_of_cgroup_v2(text: str, share: float, tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert quota(tmp_path) == share
    assert usable_cores(tmp_path) == min(share, cores())


@pytest.mark.parametrize(("limit", "share"), [("50000", 0.5), ("-1", math.inf)])
def test_a_quota_of_cgroup_v1(limit: str, share: float, tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text(limit)
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000")
    assert quota(tmp_path) == share


def test_what_the_system_does_not_tell_is_unknown(tmp_path: Path) -> None:
    assert quota(tmp_path / "absent") == math.inf
    assert shared_memory(tmp_path / "absent") is None
    assert proportional_memory(-1) is None
