"""What this machine gives to processes: cores, within the container's quota, shared memory, memory. No torch."""

from __future__ import annotations

import math
import os
from pathlib import Path

_CGROUP = Path("/sys/fs/cgroup")
_SHARED = Path("/dev/shm")  # noqa: S108 - its size is asked, nothing is written


def cores() -> int:
    """How many this process may use: its affinity, which containers and schedulers limit."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quota(cgroup: Path = _CGROUP) -> float:
    """Cores by cgroup v2, then v1; infinite without a quota."""
    try:
        limit, period = (cgroup / "cpu.max").read_text().split()
        return math.inf if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        limit_us = int((cgroup / "cpu" / "cpu.cfs_quota_us").read_text())
        period_us = int((cgroup / "cpu" / "cpu.cfs_period_us").read_text())
        return limit_us / period_us if limit_us > 0 else math.inf
    except (OSError, ValueError):
        return math.inf


def usable_cores(cgroup: Path = _CGROUP) -> float:
    """How many cores' worth of time this process may use: its cores, cut by the quota of its container."""
    return min(float(cores()), quota(cgroup))


def shared_memory(folder: Path = _SHARED) -> int | None:
    """Bytes free where processes share tensors; None where there is no such place (macOS)."""
    try:
        told = os.statvfs(folder)
    except (OSError, AttributeError):
        return None
    return told.f_bavail * told.f_frsize


def proportional_memory(pid: int) -> int | None:
    """Bytes of a process, shared pages by share (PSS); None where the system does not tell."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:")), None)
