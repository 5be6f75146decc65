"""What the system tells about a process, read from /proc."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from mlcheck.trial.processes import busy_seconds

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
