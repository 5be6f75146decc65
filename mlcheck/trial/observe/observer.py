"""The watching process: notes, fifty times a second, what a process and all it started wait for (Linux).

A process of its own, as a thread of the watched program would wait for that program's lock, and see it only where
it does not compute. Standard library only; it ends with its standard input, so also when the watched one is killed.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

from mlcheck.trial.observe.waits import kind_of_wait

_STATES_S = 0.02
_FAMILY_S = 0.25
_PROCESSES = 24
_OWN = ("py-spy", "resource_tracker", "forkserver")


def watch(pid: int, path: str) -> None:
    """Write a line `seconds pid=wait pid=wait ...` for every look into `path` until standard input is closed."""
    due = 0.0
    family: list[int] = []
    with open(path, "w", buffering=1, encoding="utf-8") as out:
        out.write(f"{time.monotonic()}\n")
        while not select.select([sys.stdin], [], [], _STATES_S)[0]:
            now = time.monotonic()
            if now >= due:
                family, due = family_of(pid), now + _FAMILY_S
            out.write(f"{now} {' '.join(f'{each}={kind_of_wait(each)}' for each in family)}\n")


def family_of(pid: int) -> list[int]:
    """The process and its descendants, without this one and the tools that watch."""
    parents: dict[int, list[int]] = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                text = Path(f"/proc/{entry}/stat").read_text()
            except OSError:
                continue
            parents.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry))
    found, waiting = [pid], [pid]
    while waiting:
        for child in parents.get(waiting.pop(), ()):
            if child != os.getpid() and not _is_own(child):
                found.append(child)
                waiting.append(child)
    return found[:_PROCESSES]


def _is_own(pid: int) -> bool:
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return True
    return any(name.encode() in command for name in _OWN)
