"""The stand-in beside the real package, where DETERMINED_PYTHON names an interpreter that has it.

What is compared is every number that the trial's own methods return, bit by bit.
"""

from __future__ import annotations

import os
import runpy
from pathlib import Path

import pytest

PYTHON = os.environ.get("DETERMINED_PYTHON", "")
pytestmark = pytest.mark.skipif(not PYTHON, reason="DETERMINED_PYTHON names no interpreter with determined")

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "determined_oracle.py"
CONFIG = """\
entrypoint: model_def:Trial
hyperparameters:
  global_batch_size: 8
  lr: {type: log, minval: -3, maxval: -1, base: 10}
  mode: MODE
optimizations: {aggregation_frequency: FREQUENCY}
searcher: {name: single, metric: val_loss, max_length: {batches: 20}}
"""
TRIAL = """
import torch
from determined import pytorch
from determined.pytorch import DataLoader, LRScheduler, PyTorchCallback, PyTorchTrial
from torch import nn


class Largest(pytorch.MetricReducer):
    def reset(self):
        self.values = []
    def update(self, value):
        self.values.append(value)
    def per_slot_reduce(self):
        return max(self.values, default=0.0)
    def cross_slot_reduce(self, per_slot):
        return max(per_slot)


class Remembering(PyTorchCallback):
    seen = 0.0
    def on_validation_start(self):
        self.seen += 1
    def on_training_epoch_start(self, epoch_idx):
        self.seen += epoch_idx


class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        lr = context.get_hparam("lr")
        self.body = context.wrap_model(nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5)))
        self.head = context.wrap_model(nn.Linear(16, 3))
        self.body_optimizer = context.wrap_optimizer(torch.optim.Adam(self.body.parameters(), lr=lr))
        self.head_optimizer = context.wrap_optimizer(torch.optim.SGD(self.head.parameters(), lr=lr, momentum=0.9))
        mode = LRScheduler.StepMode[context.get_hparam("mode")]
        schedule = torch.optim.lr_scheduler.StepLR(self.body_optimizer, 1, gamma=0.7)
        self.schedule = context.wrap_lr_scheduler(schedule, mode)
        self.largest = context.wrap_reducer(Largest(), name="largest")
        self.remembering = Remembering()
    def build_callbacks(self):
        return {"remembering": self.remembering}
    def data(self, seed):
        x = torch.randn(61, 6, generator=torch.Generator().manual_seed(seed))
        return torch.utils.data.TensorDataset(x, x[:, :3].argmax(1))
    def build_training_data_loader(self):
        return DataLoader(self.data(0), batch_size=self.context.get_per_slot_batch_size(), shuffle=SHUFFLE)
    def build_validation_data_loader(self):
        return DataLoader(self.data(1), batch_size=self.context.get_per_slot_batch_size())
    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self.head(self.body(x)), y)
        self.largest.update(loss.item())
        self.context.backward(loss)
        clip = lambda parameters: nn.utils.clip_grad_norm_(parameters, 0.1)
        self.context.step_optimizer(self.body_optimizer, clip_grads=clip)
        self.context.step_optimizer(self.head_optimizer)
        if self.context.get_hparam("mode") == "MANUAL_STEP" and batch_idx % 3 == 2:
            self.schedule.step()
        return {"loss": loss, "lr": self.schedule.get_last_lr()[0], "epoch": epoch_idx, "seen": self.remembering.seen}
    def evaluate_batch(self, batch):
        x, y = batch
        return {"val_loss": nn.functional.cross_entropy(self.head(self.body(x)), y)}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "every", "steps"),
    [
        ("STEP_EVERY_EPOCH", 1, 20),
        ("STEP_EVERY_BATCH", 3, 20),
        ("STEP_EVERY_OPTIMIZER_STEP", 2, 20),
        ("MANUAL_STEP", 1, 7),  # within an epoch, which is shuffled
    ],
)
def test_losses_are_those_of_the_real_package(
    mode: str, every: int, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model_def.py").write_text(TRIAL.replace("SHUFFLE", str(steps == 7)), encoding="utf-8")
    config = CONFIG.replace("MODE", mode).replace("FREQUENCY", str(every))
    (tmp_path / "const.yaml").write_text(config, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    compare = runpy.run_path(str(SCRIPT))["main"]
    assert compare(["model_def:Trial", "--config", "const.yaml", "--steps", str(steps), "--real", PYTHON]) == 0
