"""Cleans up after an mlcheck that was killed, which no `finally` survives: ends its processes, removes its folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mlcheck.trial.processes import kill_group, kill_marked

_START = """
import sys
sys.path.insert(0, sys.argv[1])
from mlcheck.trial.warden import watch
watch(int(sys.argv[2]), sys.argv[3], sys.argv[4])
"""
_RELIEVED = b"relieved"


@contextmanager
def warden(leader: int, mark: str, folder: Path) -> Iterator[None]:
    """While entered, a process of its own waits for this one to vanish.

    It then kills the group of `leader` and what carries `mark`: a process that is just starting shows no mark yet.
    """
    home = str(Path(__file__).resolve().parent.parent.parent)
    process = subprocess.Popen(  # noqa: S603 - mlcheck's own
        [sys.executable, "-I", "-S", "-c", _START, home, str(leader), mark, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=home,
        start_new_session=True,
    )
    try:
        yield
    finally:
        with suppress(OSError):
            process.communicate(_RELIEVED)


def watch(leader: int, mark: str, folder: str) -> None:
    """Wait for the end of standard input; without a word before it, clean up."""
    if os.read(0, len(_RELIEVED)) == _RELIEVED:
        return
    kill_group(leader)
    kill_marked(mark.encode())
    shutil.rmtree(folder, ignore_errors=True)
