"""What the operating system tells, held against what psutil and the process itself know."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from mlcheck.load.machine import cpu_times, free_memory, memory, resident


@pytest.fixture
def gone() -> int:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_memory_is_what_psutil_sees() -> None:
    found, theirs = memory(os.getpid()), psutil.Process().memory_full_info()
    assert found.rss == pytest.approx(theirs.rss / 1e6, rel=0.02)
    assert found.uss == pytest.approx(theirs.uss / 1e6, rel=0.02)
    if sys.platform == "linux":
        assert found.pss == pytest.approx(theirs.pss / 1e6, rel=0.02)
        assert found.uss <= found.pss <= found.rss


def test_what_is_allocated_is_seen_as_private() -> None:
    before = resident(os.getpid())[1]
    block = bytearray(os.urandom(1 << 20) * 64)
    assert resident(os.getpid())[1] - before == pytest.approx(len(block) / 1e6, rel=0.1)


def test_a_process_that_has_gone(gone: int) -> None:
    with pytest.raises(ProcessLookupError):
        memory(gone)
    with pytest.raises(ProcessLookupError):
        resident(gone)


@pytest.mark.skipif(sys.platform != "linux", reason="read from /proc")
def test_processor_time_counts_ours_and_does_not_go_back(gone: int) -> None:
    before = cpu_times([os.getpid(), gone])
    sum(range(3_000_000))
    after = cpu_times([os.getpid(), gone])
    assert before is not None
    assert after is not None
    assert after.ours > before.ours
    assert after.busy >= before.busy
    assert after.waited >= before.waited


def test_the_memory_of_a_container_is_what_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {
        "memory.max": "300000000",
        "memory.current": "150000000",
        "memory.stat": "anon 7\ninactive_file 50000000\n",
    }

    def read(path: Path) -> str:
        if path.name not in numbers:
            raise FileNotFoundError
        return numbers[path.name]

    monkeypatch.setattr(Path, "read_text", read)
    assert free_memory() == min(200.0, psutil.virtual_memory().available / 1e6)
