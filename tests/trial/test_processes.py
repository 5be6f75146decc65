"""What the system tells about processes, read from /proc, and that those of a program end in the right order."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlcheck.trial.processes import busy_seconds, kill_marked

SPIN = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); print(flush=True)\nwhile True: pass"
SLEEP = "import time; print(flush=True); time.sleep(600)"


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_waiting_for_a_core_counts_as_computing() -> None:
    """Four that compute on one core get a quarter of it each; none of them hangs."""
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for code in (*[SPIN] * 4, SLEEP)]
    pids = [process.pid for process in started]
    try:
        for process in started:
            assert process.stdout is not None
            process.stdout.readline()  # what starting up takes is behind it
        time.sleep(0.1)
        began, before = time.monotonic(), [busy_seconds(pid) for pid in pids]
        time.sleep(0.5)
        after, took = [busy_seconds(pid) for pid in pids], time.monotonic() - began
    finally:
        for process in started:
            process.kill()
            process.communicate()
    *shares, idle = [(end - start) / took for start, end in zip(before, after, strict=True)]
    assert min(shares) > 0.5
    assert idle < 0.2
    assert busy_seconds(os.getpid()) > 0


STARTS_LATE = """
import os, sys, time
print(flush=True); time.sleep(0.5)
os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)"], {"A_MARK": "of-this-test"})
"""
CLEANS = """
import sys
print(flush=True)
sys.stdin.read()
open(sys.argv[1], "w").close()  # from multiprocessing.resource_tracker import main
"""


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_what_cleans_up_may_do_so_though_another_process_shows_its_mark_late(tmp_path: Path) -> None:
    """As one does that the killed program had just started, while the system still loads it."""
    ours, cleaned = {**os.environ, "A_MARK": "of-this-test"}, tmp_path / "cleaned"
    read, write = os.pipe()
    cleaner = subprocess.Popen(
        [sys.executable, "-c", CLEANS, str(cleaned)], stdin=read, stdout=subprocess.PIPE, env=ours
    )
    late = subprocess.Popen([sys.executable, "-c", STARTS_LATE], pass_fds=[write], stdout=subprocess.PIPE)
    os.close(read)
    os.close(write)
    try:
        for process in (cleaner, late):
            assert process.stdout is not None
            process.stdout.readline()
        kill_marked(b"A_MARK=of-this-test")
        assert cleaned.exists()
        assert late.wait(timeout=30) == -9
    finally:
        for process in (cleaner, late):
            process.kill()
            process.communicate()
