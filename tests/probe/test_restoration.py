"""After the probes everything is bitwise what it was: an own look at the program, apart from the sandbox's."""

from __future__ import annotations

import collections
import pickle
import random
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mlcheck.pytest_plugin.fixture import Examined
from mlcheck.trial.config import hyperparameters
from mlcheck.trial.functions import build
from mlcheck.trial.trial import Progress

RULES = (
    "accumulation-not-averaged", "averaged-copy-wrong", "batch-mixing", "cannot-overfit-one-batch",
    "clip-before-unscale", "dead-units", "graph-kept-across-steps", "half-precision-diverges", "initial-loss-too-high",
    "input-ignored", "layer-outweighs-model", "learning-rate-too-high", "missing-eval-mode", "missing-zero-grad",
    "resume-loses-state", "run-not-repeatable", "schedule-misfits-run", "signal-explodes", "train-not-restored",
)  # fmt: skip
TORCH = (torch, F, torch.Tensor, nn.Module, nn.RNNBase, nn.Dropout, torch.autograd, torch.optim.Optimizer, DataLoader)
SEEN = collections.Counter[str]()


class Queue(nn.Module):
    """Batch statistics, a queue, a counter: what a forward pass changes by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1))
        self.head = nn.Linear(8, 3)
        self.register_buffer("queue", torch.zeros(8, 4))
        self.place = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.body(x)
        if self.training:
            self.queue[:, self.place % 4] = hidden.detach().mean(0)
            self.place += 1
        return self.head(hidden)  # type: ignore[no-any-return]


class Program:
    """A careful loop with much state of its own."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        inputs = torch.randn(96, 4)
        self.loader = DataLoader(TensorDataset(inputs, inputs[:, :3].argmax(1)), batch_size=16, shuffle=True)
        self.model = Queue()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 1000)
        self.averaged = torch.optim.swa_utils.AveragedModel(self.model)
        self.losses: collections.deque[float] = collections.deque(maxlen=5)
        self.running, self.noise, self.best = np.zeros(2), np.random.default_rng(1), float("inf")

    def train_step(self, batch: Any) -> torch.Tensor:
        inputs, labels = batch
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(inputs + 0.01 * random.random()), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.scheduler.step()
        self.averaged.update_parameters(self.model)
        SEEN["steps"] += 1
        self.losses.append(float(loss.detach()))
        self.running += self.noise.random(2)
        self.best = min(self.best, self.losses[-1])
        warnings.simplefilter("ignore", UnicodeWarning)
        torch.backends.cudnn.benchmark = True
        self.model.head.weight.register_hook(lambda gradient: gradient)
        return loss

    def parts(self) -> dict[str, Any]:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "scheduler": self.scheduler,
            "train_loader": self.loader,
            "train_step": self.train_step,
            "loss": nn.CrossEntropyLoss(),
        }

    def look(self) -> dict[str, Any]:
        """Its state, by other means than the sandbox's."""
        modules = [(type(one), one.training, len(one._forward_hooks)) for one in self.model.modules()]
        leaves = [(p.requires_grad, p.grad, p._backward_hooks, id(p)) for p in self.model.parameters()]
        return {
            "model": pickle.dumps(self.model.state_dict()),
            "averaged": pickle.dumps(self.averaged.state_dict()),
            "optimizer": pickle.dumps(self.optimizer.state_dict()),
            "scheduler": {key: value for key, value in self.scheduler.state_dict().items() if not key.startswith("_")},
            "modules": modules,
            "leaves": leaves,
            "own": (tuple(self.losses), self.running.tobytes(), self.best, self.model.place, dict(SEEN)),
            "noise": str(self.noise.bit_generator.state),
            "python": random.getstate(),
            "numpy": str(np.random.get_state()),
            "torch": torch.get_rng_state().tolist(),
            "modes": (torch.is_grad_enabled(), torch.backends.cudnn.benchmark, list(warnings.filters), np.geterr()),
            "function modes": len(torch.overrides._get_current_function_mode_stack()),  # type: ignore[no-untyped-call]
        }


class Opened:
    """A trial's progress, with how many snapshots wait to be restored: only where none does may a script start anew."""

    def __init__(self, inner: Progress) -> None:
        self._inner, self.count = inner, 0

    def snapshot(self) -> object:
        self.count += 1
        return self._inner.snapshot()

    def restore(self, state: object) -> None:
        self.count -= 1
        self._inner.restore(state)

    def close(self) -> None:
        self._inner.close()


def patched() -> dict[str, Any]:
    """Everything of torch's that a measurement could have put something else in place of."""
    kept = {f"{owner.__name__}.{name}": one for owner in TORCH for name, one in list(vars(owner).items())}
    return {name: id(one) for name, one in kept.items() if callable(one)}


@pytest.mark.slow
def test_after_the_probes_the_program_is_bitwise_what_it_was() -> None:
    program = Program()
    for batch in program.loader:
        program.train_step(batch)
    program.optimizer.zero_grad()
    for parameter in program.model.parameters():
        parameter._backward_hooks = None
    trial = build(program.parts, "parts", (__file__, 1), hyperparameters({}, {}, ""), torch.device("cpu"))
    assert trial.progress is not None
    opened = Opened(trial.progress)
    before, functions = program.look(), patched()
    examined = Examined(replace(trial, progress=opened), 0, 30.0)
    outcomes = {}
    for rule in RULES:
        outcomes[rule] = examined.result(rule).outcome
        assert opened.count <= 0, rule  # one that goes on from the same snapshot several times closes it as often
        opened.count = 0
    after = program.look()
    assert {key: after[key] for key in after if after[key] != before[key]} == {}
    now = patched()
    assert [name for name, one in functions.items() if now.get(name) != one] == []
    assert sum(outcome.value == "pass" for outcome in outcomes.values()) > len(RULES) / 2, outcomes
