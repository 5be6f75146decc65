"""The second network that values are compared with: it is brought up to date, or it stays what it was."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from probe_programs import ask, says, trial_of

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.program_text import names_after_construction
from mlcheck.trial.trial import Trial

LEARNER = """
import copy
import torch
from torch import nn


def network():
    return nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 4))


class Learner:
    def __init__(self):
        self.values = network()
        self.older = {made}
        {after}
        self.optimizer = torch.optim.Adam(self.values.parameters(), lr=1e-3)
        self.steps = 0

    def loss(self, batch):
        state, action, reward, following = batch
        chosen = self.values(state).gather(1, action[:, None]).squeeze(1)
        with torch.no_grad():
            best = {valued}
        return nn.functional.smooth_l1_loss(chosen, {target})

    def step(self, batch, index):
        loss = self.loss(batch)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.steps += 1
        {every}
        return {{"loss": loss.detach()}}
"""
COPIED = {"made": "copy.deepcopy(self.values).requires_grad_(False)", "after": "pass"}
LOADED = {"made": "network()", "after": "self.older.load_state_dict(self.values.state_dict())"}
BOOTSTRAPPED = {"valued": "self.older(following).max(1).values", "target": "reward + 0.95 * best"}


def learning(folder: Path, **parts: str) -> Trial:
    path = folder / "learner.py"
    path.write_text(LEARNER.format(**{**COPIED, **BOOTSTRAPPED, "every": "pass", **parts}))
    spec = importlib.util.spec_from_file_location("learner", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["learner"] = module
    spec.loader.exec_module(module)
    learner: Any = module.Learner()
    draws = torch.Generator().manual_seed(0)
    batches = [
        (
            torch.randn(16, 3, generator=draws),
            torch.randint(4, (16,), generator=draws),
            torch.rand(16, generator=draws),
            torch.randn(16, 3, generator=draws),
        )
        for _ in range(4)
    ]
    trial = trial_of(learner.values, batches, lambda _, batch: learner.loss(batch), learner.optimizer, learner.step)
    trial.objects, trial.entry = (learner,), (str(path), 1)
    return trial


@pytest.mark.parametrize("copied", [COPIED, LOADED, {**COPIED, "after": "self.older.eval()"}])
def test_a_copy_of_the_untrained_network_that_nothing_writes_to(copied: dict[str, str], tmp_path: Path) -> None:
    verdict = ask("averaged-copy-wrong", learning(tmp_path, **copied))
    says(verdict, Outcome.WARN, "older` stays as the untrained model was")


@pytest.mark.parametrize(
    "parts",
    [
        {"every": "self.steps % 500 or self.older.load_state_dict(self.values.state_dict())"},
        {"every": "self.older = copy.deepcopy(self.values) if self.steps % 500 == 0 else self.older"},
        {"every": "[o.data.add_(0.0) for o in self.older.parameters() if self.steps > 900]"},
        {"made": "network()"},  # other weights from the start: meant to be another network
        {"target": "reward", "valued": "0.0"},  # nothing is compared with what it says
    ],
)
def test_one_that_is_written_to_later_or_is_no_copy(parts: dict[str, str], tmp_path: Path) -> None:
    assert ask("averaged-copy-wrong", learning(tmp_path, **parts)).outcome is not Outcome.WARN


def test_names_that_come_after_construction() -> None:
    text = "class A:\n    def __init__(self):\n        self.load()\n"
    text += "    def step(self):\n        def inner():\n            x.lerp_(y)\n"
    assert names_after_construction(text) == {"x", "lerp_", "y"}
    assert names_after_construction("def (") is None


def test_what_a_function_copies_before_its_loop_belongs_to_the_making() -> None:
    made = "def main():\n    old = copy.deepcopy(net)\n    for x in data:\n        step(old)\n"
    assert "deepcopy" not in (names_after_construction(made) or ())
    looped = (
        "old = copy.deepcopy(net)\nfor x in data:\n    if x > 900:\n        old.load_state_dict(net.state_dict())\n"
    )
    assert {"load_state_dict", "x"} <= (names_after_construction(looped) or set())
    assert "deepcopy" not in (names_after_construction(looped) or ())


@pytest.mark.parametrize(
    "text",
    [
        "def main():\n    for x in data:\n        old = copy.deepcopy(net)\n",
        "def again(net):\n    old = copy.deepcopy(net)\n    return old\n",
        "def again(net):\n    old = copy.deepcopy(net)\n    for p in old:\n        p.freeze()\n    return old\n",
        "def again(net):\n    global old\n    old = copy.deepcopy(net)\n    for x in data:\n        step(x)\n",
        "def again(self):\n    self.old = copy.deepcopy(self.net)\n    for x in data:\n        step(x)\n",
    ],
)
def test_copies_that_may_be_made_again(text: str) -> None:
    assert "deepcopy" in (names_after_construction(text) or ())
