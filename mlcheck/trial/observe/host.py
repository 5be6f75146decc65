"""What this machine gives to processes: shared memory and memory. No torch."""

from __future__ import annotations

import os
from pathlib import Path

_SHARED = Path("/dev/shm")  # noqa: S108 - its size is asked, nothing is written


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
