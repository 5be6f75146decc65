"""What the operating system tells about cores, memory and waiting. Unknown where it does not (outside Linux)."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path

import psutil

MB = 1e6


_CGROUP = Path("/sys/fs/cgroup")
_LIMITS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))


def free_memory() -> float:
    """Megabytes that can still be taken: of the machine, or of the container where that is less.

    A container's use counts cached files, which make room: those not in use are taken off.
    """
    free = float(psutil.virtual_memory().available) / MB
    for limit, used in _LIMITS:
        try:
            taken = int((_CGROUP / used).read_text()) - _cached_files((_CGROUP / used).parent)
            free = min(free, (int((_CGROUP / limit).read_text()) - taken) / MB)
        except (OSError, ValueError):
            continue
    return free


def _cached_files(folder: Path) -> int:
    lines = (folder / "memory.stat").read_text().splitlines()
    return next(
        (int(line.split()[1]) for line in lines if line.startswith(("inactive_file ", "total_inactive_file "))), 0
    )


@dataclass(frozen=True, slots=True)
class Memory:
    """Megabytes of one process. `pss` counts shared pages by share, `uss` only its own; NaN where unknown."""

    rss: float
    pss: float
    uss: float


def memory(pid: int) -> Memory:
    """All three; some milliseconds, so not during a timed phase. Raises ProcessLookupError for a dead process."""
    try:
        fields = _sizes(Path(f"/proc/{pid}/smaps_rollup"))
        own = fields["Private_Clean"] + fields["Private_Dirty"] + fields.get("Private_Hugetlb", 0.0)
        return Memory(fields["Rss"], fields["Pss"], own)
    except (FileNotFoundError, PermissionError, KeyError):
        pass
    try:
        process = psutil.Process(pid)
        full = process.memory_full_info()
        return Memory(full.rss / MB, getattr(full, "pss", math.nan * MB) / MB, full.uss / MB)
    except psutil.Error as error:
        raise ProcessLookupError(str(error)) from error


def resident(pid: int) -> tuple[float, float]:
    """RSS, and of it what is private and not a file: the part a leak grows. Some microseconds.

    The harness writes its records into mapped files, which count into RSS and not into the second.
    """
    try:
        fields = _sizes(Path(f"/proc/{pid}/status"))
        return fields["VmRSS"], fields["RssAnon"]
    except (FileNotFoundError, PermissionError, KeyError):
        pass
    try:
        rss = psutil.Process(pid).memory_info().rss / MB
        return rss, rss
    except psutil.Error as error:
        raise ProcessLookupError(str(error)) from error


def _sizes(path: Path) -> dict[str, float]:
    """The lines `Name:  123 kB` of a file in /proc, in megabytes. ProcessLookupError where the process has gone."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        if path.parent.parent.exists() and not path.parent.exists() and Path("/proc/self").exists():
            raise ProcessLookupError(path.parent.name) from None
        raise
    pairs = (line.partition(":") for line in lines if line.endswith(" kB"))
    return {name: int(value.split()[0]) * 1024 / MB for name, _, value in pairs}


@dataclass(frozen=True, slots=True)
class CpuTimes:
    """Seconds so far: `busy` of all our cores whoever used them, `ours` of the workers, `waited` of their threads."""

    busy: float
    ours: float
    waited: float


def cpu_times(pids: list[int]) -> CpuTimes | None:
    """Read before and after a phase: waiting for a core, and what others took. None outside Linux."""
    try:
        ticks = os.sysconf("SC_CLK_TCK")
        allowed = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        busy = 0.0
        for line in Path("/proc/stat").read_text().splitlines():
            name, *fields = line.split()
            if name in allowed:
                user, nice, system, _, _, irq, softirq, steal = (int(field) for field in fields[:8])
                busy += (user + nice + system + irq + softirq + steal) / ticks
        used, waited = zip(*(_of_process(pid) for pid in pids), strict=True) if pids else ((0.0,), (0.0,))
        return CpuTimes(busy, sum(used), sum(waited))
    except (OSError, ValueError, AttributeError):
        return None


def _of_process(pid: int) -> tuple[float, float]:
    """Seconds on a core and seconds ready but waiting for one, of all threads. 0 for a dead process."""
    used = waited = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            on_core, waiting, _ = task.read_text().split()
        except (OSError, ValueError):
            continue
        used += int(on_core)
        waited += int(waiting)
    return used / 1e9, waited / 1e9
