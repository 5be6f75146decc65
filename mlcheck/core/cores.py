"""How many processor cores this process may use."""

from __future__ import annotations

import math
import os

_CGROUP = "/sys/fs/cgroup"


def usable_cores(cgroup: str | os.PathLike[str] = _CGROUP) -> float:
    """Cores' worth of time: the affinity of the process, cut by the quota of its container."""
    return min(float(cores()), quota(cgroup))


def cores() -> int:
    """The cores that the process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def idle_cores() -> int:
    """Whole cores that this process may use and that nothing kept busy in the last minute; at least one."""
    try:
        busy = os.getloadavg()[0]
    except (AttributeError, OSError):  # not told on Windows
        busy = 0.0
    return max(1, min(int(usable_cores()), round((os.cpu_count() or 1) - busy)))


def quota(cgroup: str | os.PathLike[str] = _CGROUP) -> float:
    """Cores by cgroup v2, then v1; infinite without a quota."""
    try:
        limit, period = _read(cgroup, "cpu.max").split()
        return math.inf if limit == "max" else int(limit) / int(period)
    except (OSError, ValueError):
        pass
    try:
        limit_us = int(_read(cgroup, "cpu", "cpu.cfs_quota_us"))
        return limit_us / int(_read(cgroup, "cpu", "cpu.cfs_period_us")) if limit_us > 0 else math.inf
    except (OSError, ValueError):
        return math.inf


def _read(*parts: str | os.PathLike[str]) -> str:
    with open(os.path.join(*parts), encoding="ascii") as file:
        return file.read()
