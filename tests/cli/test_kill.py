"""Killed at any moment, a command leaves what was there before, or all of what it was writing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mlcheck.cli import main

FORGETFUL = """\
import torch
from torch import nn


def train(loader):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
"""


@pytest.mark.slow
def test_reports_and_baselines_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(FORGETFUL, encoding="utf-8")
    command = ["lint", "--write-baseline", "--format", "json", "--output", "found.json"]
    assert main(command) == 0
    files = {name: Path(name).read_bytes() for name in ("found.json", "mlcheck-baseline.json")}
    chance = random.Random(0)
    for round_ in range(8):
        more = FORGETFUL.replace("def train", f"def train_{round_}")
        Path(f"more_{round_}.py").write_text(more, encoding="utf-8")
        process = subprocess.Popen([sys.executable, "-m", "mlcheck", *command], stdout=subprocess.DEVNULL)
        time.sleep(chance.uniform(0.05, 1.0))
        process.send_signal(signal.SIGKILL)
        process.wait()
        for name, before in files.items():
            now = Path(name).read_bytes()
            assert json.loads(now)
            if name == "mlcheck-baseline.json":
                assert len(json.loads(now)["findings"]) >= len(json.loads(before)["findings"])
            files[name] = now
    assert main(command) == 0
    assert len(json.loads(Path("mlcheck-baseline.json").read_text(encoding="utf-8"))["findings"]) == 9
