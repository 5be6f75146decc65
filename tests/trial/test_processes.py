"""What the system tells about a process, read from /proc."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from mlcheck.trial.processes import busy_seconds

SPIN = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_waiting_for_a_core_counts_as_computing() -> None:
    """Four that compute on one core get a quarter of it each; none of them hangs."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(4)]
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    pids = [process.pid for process in (*spinning, sleeping)]
    try:
        time.sleep(0.3)
        began, before = time.monotonic(), [busy_seconds(pid) for pid in pids]
        time.sleep(0.5)
        after, took = [busy_seconds(pid) for pid in pids], time.monotonic() - began
    finally:
        for process in (*spinning, sleeping):
            process.kill()
            process.wait()
    *shares, idle = [(end - start) / took for start, end in zip(before, after, strict=True)]
    assert min(shares) > 0.5
    assert idle < 0.2
    assert busy_seconds(os.getpid()) > 0
