"""What a call that is not followed is known to do all the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlcheck.lint.interpret import habits
from tests.lint.lint_runs import lint, places, write

TRAINING = """\
import torch
import torch.nn.functional as F
from torch import nn


class Cached(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Sequential(nn.Linear(4, 4), nn.Dropout())

    def train(self, mode=True):
        self.cache = {}
        return super().train(mode)

    def forward(self, x):
        return self.fc(x)


def fit(loader, held_out):
    net = Cached()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for epoch in range(10):
        net.train()
        for x, y in loader:
            optimizer.zero_grad()
            F.cross_entropy(net(x), y).backward()
            optimizer.step()
        net.eval()
        with torch.no_grad():
            for x, y in held_out:
                print((net(x).argmax(1) == y).sum())
"""


def test_train_of_a_module_sets_the_mode_even_where_nobody_looks_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(habits, "is_abandoned", lambda m, info: info.name == "train")
    write("program.py", TRAINING)
    assert places(lint(), "train-not-restored") == []
    write("program.py", TRAINING.replace("        net.train()\n", ""))
    assert places(lint(), "train-not-restored") == [("program.py", 27)]
