"""What the operating system tells about processes, and how to end those that got away."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def oom_kills() -> int:
    """How many processes the kernel has killed for want of memory; 0 where it does not tell (not Linux)."""
    try:
        lines = Path("/proc/vmstat").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


def processor_seconds(process: int) -> float:
    """What a process has computed so far, its threads included; 0 where the system does not tell (not Linux)."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def kill_marked(mark: bytes) -> None:
    """Kill what left the child's process group: a daemon still carries the mark in its environment (Linux)."""
    for _ in range(3):
        marked = [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if mark in _environment(entry)]
        if not marked:
            return
        for process in marked:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)


def _environment(process: Path) -> bytes:
    try:
        return (process / "environ").read_bytes()
    except OSError:
        return b""
