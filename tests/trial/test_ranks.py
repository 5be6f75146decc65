"""Ranks under the real launcher: what they tell, and that nothing of them stays, whatever ends them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from mlcheck.trial.ranks.launch import Launch, launch
from mlcheck.trial.ranks.story import JoinedStep, Step
from mlcheck.trial.trial import EntryOptions, Source

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")]

FUNCTION = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def build():
    data = TensorDataset(torch.randn(48, 6), torch.randint(3, (48,)))
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3))
    return {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1),
        "loss": nn.CrossEntropyLoss(),
        "train_loader": DataLoader(data, batch_size=4, shuffle=True),
    }
"""
HANGS = """
import os, subprocess, sys, time
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo")
model = nn.Linear(3, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(3):
    for x, in DataLoader(TensorDataset(torch.randn(8, 3)), batch_size=4):
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()
    if dist.get_world_size() > 1:
        shared = torch.zeros(1000).share_memory_()
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
        if dist.get_rank() == 1:
            time.sleep(600)
        dist.barrier()
"""
BARRIER = 21


def marked(mark: str, words: str = "") -> list[int]:
    """The living processes that carry the mark in their environment, with `words` in their command line."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            command = (process / "cmdline").read_text()
            if state != "Z" and words in command and mark.encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
        except OSError:
            continue
    return found


def soon(happens: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not happens():
        if time.monotonic() > end:
            return False
        time.sleep(0.2)
    return True


def launched(source: str, folder: Path, name: str, seconds: float, world: int = 2) -> Launch:
    (folder / "program.py").write_text(source)
    return launch(Source(f"program.py{name}", EntryOptions(), str(folder)), world, seconds)


@pytest.mark.parametrize("world", [4])
def test_a_function_runs_on_ranks_as_one_process_would(
    world: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLCHECK_TEST_MARK", mark := f"{tmp_path}-{world}")
    run = launched(FUNCTION, tmp_path, ":build", 120, world)
    assert [rank.ended for rank in run.ranks] == ["finished"] * world, [rank.failure for rank in run.ranks]
    for rank in run.ranks:
        (joined,) = rank.of(JoinedStep)
        assert joined.error == ""
        assert joined.averaged < 1e-12
        assert joined.rest < 1e-12
        assert joined.weights == pytest.approx([1 / world] * world, abs=1e-12)
    weights = [[step.weights for step in rank.of(Step)] for rank in run.ranks]
    assert all(mine == weights[0] for mine in weights)
    assert len(weights[0]) > 3
    assert marked(mark) == []


def test_a_hang_ends_in_time_with_its_place_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLCHECK_TEST_MARK", mark := str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    run = launched(HANGS, tmp_path, "", 40)
    assert not any(rank.ended for rank in run.ranks)
    waiting, asleep = run.ranks
    assert waiting.failure is not None
    assert waiting.failure.lost_peer
    assert waiting.failure.place == (str(tmp_path / "program.py"), BARRIER)
    assert f'program.py", line {BARRIER - 1}' in asleep.stack
    assert marked(mark) == []
    assert all(rank.pid for rank in run.ranks)
    shared = tuple(f"torch_{rank.pid}_" for rank in run.ranks)  # as torch names shared memory: after its process
    assert not [name for name in os.listdir("/dev/shm") if name.startswith(shared)]
    assert os.listdir(tmp_path) == ["program.py"]


@pytest.mark.parametrize("victim", ["mlcheck", "ranks.rank"])
def test_nothing_survives_a_kill(victim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    home.mkdir()
    temporary.mkdir()
    monkeypatch.setenv("MLCHECK_TEST_MARK", mark := f"{tmp_path}-mark")
    monkeypatch.setenv("TMPDIR", str(temporary))
    (home / "program.py").write_text(HANGS)
    mlcheck = subprocess.Popen(
        [sys.executable, "-m", "mlcheck", "probe", "program.py", "--only", "rank-dies-or-hangs", "--time-limit", "120"],
        cwd=home,
        stdout=subprocess.DEVNULL,
    )
    assert soon(lambda: len(marked(mark, "time.sleep(600)")) == 2, 90), "the ranks did not start"
    os.kill(mlcheck.pid if victim == "mlcheck" else marked(mark, victim)[0], signal.SIGKILL)
    if victim == "mlcheck":
        mlcheck.wait()
    elif victim == "ranks.rank":
        assert soon(lambda: not marked(mark, "time.sleep(600)"), 60)
    assert soon(lambda: not marked(mark, "ranks.rank"), 30)
    if mlcheck.poll() is None:
        mlcheck.wait(120)
    assert soon(lambda: marked(mark) == [], 20), marked(mark)
    assert list(temporary.iterdir()) == []


def test_a_rank_that_computes_for_long_is_not_taken_for_one_that_waits(tmp_path: Path) -> None:
    slow = HANGS.replace("time.sleep(600)\n        dist", "while True: pass\n        dist")
    assert slow != HANGS
    first, second = launched(slow, tmp_path, "", 100).ranks
    assert first.failure is not None
    assert first.failure.lost_peer
    assert second.computing
    assert not second.ended
