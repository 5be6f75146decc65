"""What the operating system tells about processes, and how to end them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

# They end by themselves once all others have, and remove the shared memory and semaphores of those.
_CLEANERS = (b"from multiprocessing.resource_tracker import main", b"torch_shm_manager")
_PATIENCE_S = 10.0  # a cleaner imports what it warns with: seconds, on a busy machine
_LOOK_S = 0.02
_ENDING = (signal.SIGTERM, signal.SIGHUP)


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


def busy_seconds(process: int) -> float:
    """How long the threads of a process have computed, or could have but for other programs on the cores.

    0 where the system does not tell (not Linux).
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    computed = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return computed + sum(map(_without_a_core, Path(f"/proc/{process}/task").glob("*/schedstat")))


def _without_a_core(schedstat: Path) -> float:
    """Seconds that a thread was ready to run and had to wait."""
    try:
        return int(schedstat.read_text().split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


@contextmanager
def termination_raises() -> Iterator[None]:
    """Within, SIGTERM and SIGHUP raise SystemExit as Ctrl-C raises KeyboardInterrupt, so that cleanup runs."""

    def leave(number: int, _frame: object) -> None:
        raise SystemExit(128 + number)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = [one for one in _ENDING if signal.getsignal(one) is not signal.SIG_IGN]  # nohup ignores the hang-up
    before = [(one, signal.signal(one, leave)) for one in ending]
    try:
        yield
    finally:
        for one, handler in before:
            signal.signal(one, handler)


def kill_group(leader: int) -> None:
    """Kill a process group, but what cleans up after it (Linux): that is left to `kill_marked`."""
    with suppress(ProcessLookupError, PermissionError):
        if not _members(leader):
            os.killpg(leader, signal.SIGKILL)
        for _ in range(2):  # one that forked meanwhile has left a child
            for process in _members(leader):
                if process == leader or not _cleans_up(process):
                    _kill(process)


def kill_marked(mark: bytes) -> None:
    """Kill what carries the mark in its environment, as a daemon does that left its group; cleaners last (Linux)."""
    end = time.monotonic() + _PATIENCE_S
    while (left := marked(mark)) and time.monotonic() < end:
        for process in left:  # anew each time: one that was just starting shows its environment only now
            if not _cleans_up(process):
                _kill(process)
        time.sleep(_LOOK_S)
    for process in left:
        _kill(process)


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)


def _processes() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]


def _members(leader: int) -> list[int]:
    return [process for process in _processes() if _group(process) == leader]


def marked(mark: bytes) -> list[int]:
    """The processes that carry a mark in their environment (Linux)."""
    return [process for process in _processes() if mark in _told(process, "environ")]


def _cleans_up(process: int) -> bool:
    command = _told(process, "cmdline")
    return any(name in command for name in _CLEANERS)


def _group(process: int) -> int:
    """0 where it is gone."""
    fields = _told(process, "stat").rpartition(b")")[2].split()
    return int(fields[2]) if len(fields) > 2 else 0


def _told(process: int, file: str) -> bytes:
    try:
        return Path(f"/proc/{process}/{file}").read_bytes()
    except OSError:
        return b""
