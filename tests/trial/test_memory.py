"""A program that takes too much memory is stopped, and no other."""

from __future__ import annotations

import mmap
import os
import sys
from pathlib import Path

import pytest

from mlcheck.trial import memory
from mlcheck.trial.isolate import ChildEnd, End, run_child
from mlcheck.trial.memory import MemoryGuard, held_by, machine_memory

GB = 10**9
pytestmark = pytest.mark.skipif(not Path("/proc/meminfo").exists(), reason="only Linux tells what a process holds")
TAKES = """
from mlcheck.trial.channel import connect
channel = connect()
import os, subprocess, sys, time
channel.send({{}})
if {forks}:
    process = subprocess.Popen([sys.executable, "-c", "import time; held = b'x' * 300_000_000; time.sleep(60)"])
else:
    held = b"x" * 300_000_000
time.sleep({seconds})
channel.finish()
"""


def taking(limit: int, *, forks: bool = False, seconds: float = 60.0) -> ChildEnd:
    code = TAKES.format(forks=forks, seconds=seconds)
    return run_child(
        [sys.executable, "-c", code], time_limit_s=60, cwd=".", on_message=lambda _: None, memory=MemoryGuard(limit)
    )


@pytest.mark.parametrize("forks", [False, True])
def test_a_program_above_its_limit_is_stopped_with_what_it_started(forks: bool) -> None:
    end = taking(200_000_000, forks=forks)
    assert end.how is End.STOPPED_FOR_MEMORY
    assert "more than the memory limit of 200 MB" in str(end)
    assert end.signal == ""
    assert "time.sleep" in end.stack or "<module>" in end.stack


def test_a_program_below_its_limit_goes_on() -> None:
    assert taking(2 * GB, seconds=1.0).how is End.FINISHED
    assert taking(0, seconds=0.5).how is End.FINISHED


def test_what_is_held_is_told() -> None:
    before = held_by([os.getpid()])
    with mmap.mmap(-1, 100_000_000) as held:  # pages of its own, whatever this process has freed and kept
        held.write(b"x" * len(held))
        assert 90_000_000 < held_by([os.getpid()]) - before < 250_000_000
    assert held_by([2**22 + 1]) == 0


def test_what_the_machine_has_is_told() -> None:
    left, total = machine_memory()
    assert 0 < left <= total


def guarded(monkeypatch: pytest.MonkeyPatch, left: int, held: int) -> str:
    monkeypatch.setattr(memory, "machine_memory", lambda: (left, 64 * GB))
    monkeypatch.setattr(memory, "marked", lambda _: [1])
    monkeypatch.setattr(memory, "held_by", lambda _: held)
    return MemoryGuard().complaint(b"mark")


def test_without_a_limit_only_the_last_of_the_machine_counts_and_only_who_took_most(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert guarded(monkeypatch, left=5 * GB, held=58 * GB) == ""
    assert guarded(monkeypatch, left=GB // 2, held=10 * GB) == ""
    told = guarded(monkeypatch, left=GB // 2, held=58 * GB)
    assert told == "it held 58 GB, and 500 MB of the machine's 64 GB were left"


def test_a_container_has_the_memory_of_its_group(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_CGROUPS", tmp_path)
    (tmp_path / "memory.max").write_text("2000000000\n", encoding="utf-8")
    (tmp_path / "memory.current").write_text("1900000000\n", encoding="utf-8")
    (tmp_path / "memory.stat").write_text("anon 1\ninactive_file 300000000\n", encoding="utf-8")
    assert machine_memory() == (400_000_000, 2_000_000_000)
    (tmp_path / "memory.max").write_text("max\n", encoding="utf-8")
    assert machine_memory()[1] != 2_000_000_000
