"""What the system has counted of a process, and of the machine: processor time, waiting, switches, bytes (Linux)."""

from __future__ import annotations

import os
from pathlib import Path

Counters = dict[str, float]


def of_process(pid: int) -> Counters:
    """Totals of one process; what the system does not tell is left out, and all of it for a dead process.

    Seconds of `user` and `system` work of all its threads, and of `main` alone; seconds in which a thread was ready
    and had no core (`delay`, `main_delay`); switches it was forced to (`forced`) or took by waiting (`given`);
    bytes `read` from a disk.
    """
    found: Counters = {}
    try:
        tick = os.sysconf("SC_CLK_TCK")
        fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()
        found = {"user": int(fields[11]) / tick, "system": int(fields[12]) / tick}
        tasks = os.listdir(f"/proc/{pid}/task")
    except (OSError, ValueError, IndexError):
        return found
    for task in tasks:
        try:
            ran, waited, _ = map(int, _text(f"/proc/{pid}/task/{task}/schedstat").split())
        except (OSError, ValueError):
            continue
        found["delay"] = found.get("delay", 0.0) + waited / 1e9
        if task == str(pid):
            found |= {"main": ran / 1e9, "main_delay": waited / 1e9}
    labels = {"forced": "\nnonvoluntary_ctxt_switches:", "given": "\nvoluntary_ctxt_switches:"}
    for name, label, file in (
        *((key, text, "status") for key, text in labels.items()),
        ("read", "\nread_bytes:", "io"),
    ):
        try:
            found[name] = float(_text(f"/proc/{pid}/{file}").partition(label)[2].split(maxsplit=1)[0])
        except (OSError, ValueError, IndexError):
            continue
    return found


def of_machine() -> Counters:
    """Seconds that the cores this process may use were `busy`, whoever used them, and by pressure stall information

    in which somebody waited for a core (`cpu`) or for a disk (`io`). What a hypervisor took counts as busy.
    """
    found: Counters = {}
    try:
        allowed = {f"cpu{core}" for core in os.sched_getaffinity(0)}
        lines = [line.split() for line in _text("/proc/stat").splitlines()]
        ticks = sum(sum(map(int, (*n[1:4], *n[6:9]))) for n in lines if n[0] in allowed)
        found["busy"] = ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, AttributeError):
        pass
    for kind in ("cpu", "io"):
        try:
            found[kind] = int(_text(f"/proc/pressure/{kind}").partition("\n")[0].rpartition("total=")[2]) / 1e6
        except (OSError, ValueError):
            continue
    return found


def added(before: Counters, after: Counters) -> Counters:
    """What was counted between two readings, of what both tell."""
    return {name: after[name] - before[name] for name in before.keys() & after.keys()}


def summed(parts: list[Counters]) -> Counters:
    """The sum of several, of what any of them tells."""
    total: Counters = {}
    for part in parts:
        for name, value in part.items():
            total[name] = total.get(name, 0.0) + value
    return total


def _text(path: str) -> str:
    return Path(path).read_text(encoding="utf-8", errors="replace")
