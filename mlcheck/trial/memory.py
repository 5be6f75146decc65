"""How much memory a program holds, and whether it is about to take the last of the machine's (Linux)."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from mlcheck.core.memory_size import written
from mlcheck.trial.observe.host import proportional_memory
from mlcheck.trial.processes import marked

_PROC, _CGROUPS = Path("/proc"), Path("/sys/fs/cgroup")
_UNLIMITED = 1 << 60
_LEFT = 0.02
_LEAST_LEFT = 256 * 2**20
_MOST_LEFT = 2 * 2**30
_LOOK_S = 0.1
_COUNT_S = 0.5
_EARLY_SHARE, _EARLY_MARGIN = 0.9, 2.0


class MemoryGuard:
    """Watches the processes that carry a mark. `limit` in bytes; 0 for what the machine has.

    An `early` one speaks up a little before another that watches the same: what it ends spares the rest.

    Without a limit it speaks up only where hardly anything is left and most of what is used is theirs: before the
    system kills one process or another.
    """

    def __init__(self, limit: int = 0, early: bool = False) -> None:
        self._limit = int(limit * _EARLY_SHARE) if early else limit
        self._margin = _EARLY_MARGIN if early else 1.0
        self._looked = self._counted = 0.0

    def complaint(self, mark: bytes) -> str:
        """Why the program has to be stopped now; empty where it may go on. Looks at most ten times a second."""
        now = time.monotonic()
        if now - self._looked < _LOOK_S:
            return ""
        self._looked = now
        if self._limit:
            return self._over_limit(mark, now)
        left, total = machine_memory()
        if left > self._margin * min(_MOST_LEFT, max(_LEAST_LEFT, _LEFT * total)):
            return ""
        held = held_by(marked(mark))
        if held < (total - left) / 2:
            return ""
        return f"it held {written(held)}, and {written(left)} of the machine's {written(total)} were left"

    def _over_limit(self, mark: bytes, now: float) -> str:
        if now - self._counted < _COUNT_S:
            return ""
        self._counted = now
        held = held_by(marked(mark))
        return (
            f"it held {written(held)}, more than the memory limit of {written(self._limit)}"
            if held > self._limit
            else ""
        )


def machine_memory() -> tuple[int, int]:
    """Bytes that can still be had and bytes in all, of the machine or of the container; without end where not told."""
    found = [pair for pair in (_of_machine(), *_of_containers()) if pair]
    return min(found, default=(_UNLIMITED, _UNLIMITED))


def held_by(processes: Iterable[int]) -> int:
    """Bytes of memory, what several of them share counted once; 0 where the system does not tell."""
    return sum(map(_held, processes))


def _held(process: int) -> int:
    share = proportional_memory(process)
    if share is not None:
        return share
    fields = _text(_PROC / str(process) / "statm").split()
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") if len(fields) > 1 else 0


def _of_machine() -> tuple[int, int] | None:
    told = dict(re.findall(r"^(MemAvailable|MemTotal|SwapFree):\s+(\d+)", _text(_PROC / "meminfo"), re.MULTILINE))
    if "MemAvailable" not in told:
        return None
    return 1024 * (int(told["MemAvailable"]) + int(told.get("SwapFree", 0))), 1024 * int(told["MemTotal"])


def _of_containers() -> list[tuple[int, int]]:
    """Of control groups, in the second version and in the first: what a process in a container sees as its own."""
    names = (("", "memory.max", "memory.current"), ("memory", "memory.limit_in_bytes", "memory.usage_in_bytes"))
    found = []
    for folder, most, used in names:
        place = _CGROUPS / folder
        with suppress(ValueError):
            total, now = int(_text(place / most)), int(_text(place / used))
            cached = re.search(r"^(?:total_)?inactive_file (\d+)", _text(place / "memory.stat"), re.MULTILINE)
            if total < _UNLIMITED:
                found.append((max(0, total - now + (int(cached[1]) if cached else 0)), total))
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
