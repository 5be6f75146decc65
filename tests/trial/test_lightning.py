"""LightningModules, fitted by a Trainer under control: a small one of our own, Lightning's where it is installed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from probe_programs import ask

from mlcheck.core.outcome import Outcome
from mlcheck.trial.find import EntryOptions, load_trial
from mlcheck.trial.trial import EntryError, Trial

Write = Callable[[str, str], Path]
Load = Callable[..., Trial]

# What the adapter asks of the package: a Trainer that fits, with Lightning's order of things.
PACKAGE = """
import torch
from torch import nn

class LightningModule(nn.Module):
    def train_dataloader(self): ...

class LightningDataModule:
    def setup(self, stage): ...

class Trainer:
    def __init__(self, max_epochs, enable_checkpointing, **settings):
        assert enable_checkpointing is False
        self.max_epochs = max_epochs

    def fit(self, model, datamodule=None):
        if datamodule:
            datamodule.setup("fit")
        source = datamodule or model
        optimizer = model.configure_optimizers()
        train, val = source.train_dataloader(), source.val_dataloader()
        for epoch in range(self.max_epochs):
            model.train()
            for index, batch in enumerate(train):
                optimizer.zero_grad()
                model.training_step(batch, index).backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for index, batch in enumerate(val):
                    model.validation_step(batch, index)
"""
MODULE = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import pytorch_lightning as pl

class Lit(pl.LightningModule):
    def __init__(self, rate=3e-3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 5))
        self.rate = rate

    def training_step(self, batch, index):
        return F.cross_entropy(self.net(batch[0]), batch[1])

    def validation_step(self, batch, index):
        F.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.rate)

class Data(pl.LightningDataModule):
    def setup(self, stage):
        torch.manual_seed(0)
        x = torch.randn(96, 8)
        y = x[:, :5].argmax(1)
        self.train, self.val = TensorDataset(x[:64], y[:64]), TensorDataset(x[64:], y[64:])

    def train_dataloader(self):
        return DataLoader(self.train, 16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.val, 16)
"""


@pytest.fixture
def load(write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    trials = []

    def loaded(text: str, package: str = PACKAGE, **values: object) -> Trial:
        if package:
            for name in [name for name in sys.modules if name.partition(".")[0] == "pytorch_lightning"]:
                monkeypatch.delitem(sys.modules, name)  # that of an earlier test
            write("pytorch_lightning.py", package)
        write("lit.py", text)
        trials.append(load_trial("lit.py:Lit", EntryOptions(hparams=values)))
        return trials[-1]

    yield loaded
    for trial in reversed(trials):
        assert trial.progress
        trial.progress.close()


def test_a_module_with_the_data_beside_it(load: Load) -> None:
    trial = load(MODULE, rate=0.01)
    assert next(iter(trial.optimizers.values())).param_groups[0]["lr"] == 0.01
    for rule in ("missing-zero-grad", "parameter-not-in-optimizer", "missing-eval-mode", "train-not-restored"):
        verdict = ask(rule, trial)
        assert verdict.outcome is Outcome.PASS, (rule, verdict.reason or verdict.summary)


@pytest.mark.parametrize(
    ("rule", "right", "wrong"),
    [
        ("softmax-before-ce", "self.net(batch[0])", "self.net(batch[0]).softmax(1)"),
        ("parameter-not-in-optimizer", "Adam(self.parameters()", "Adam(self.net[0].parameters()"),
        (
            "train-not-restored",
            "def training_step(self, batch, index):",
            "def training_step(self, batch, index):\n        self.eval()",
        ),
        (
            "missing-eval-mode",
            "def validation_step(self, batch, index):",
            "def validation_step(self, batch, index):\n        self.train()",
        ),
        ("input-ignored", "nn.Sequential(", "nn.Sequential(nn.Threshold(1e9, 0.0), "),
    ],
)
def test_a_fault_in_a_module_is_found(load: Load, rule: str, right: str, wrong: str) -> None:
    assert right in MODULE
    verdict = ask(rule, load(MODULE.replace(right, wrong)))
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary


def test_a_module_with_its_own_loaders(load: Load) -> None:
    text = MODULE.replace(
        "class Data(pl.LightningDataModule):\n    def setup(self, stage):", "    def setup_data(self):"
    )
    text = text.replace(
        "        return DataLoader(self.train,", "        self.setup_data()\n        return DataLoader(self.train,"
    )
    trial = load(text.replace("self.train,", "self.train_data,"))
    assert ask("missing-zero-grad", trial).outcome is Outcome.PASS


def test_what_is_missing_is_told(load: Load) -> None:
    with pytest.raises(EntryError, match=r"one LightningDataModule \(there is none\)"):
        load(MODULE.partition("class Data")[0])
    with pytest.raises(EntryError, match=r"there is Data, More.*mlcheck probe train.py"):
        load(MODULE + "\nclass More(Data): ...\n")
    with pytest.raises(EntryError, match="`Lit` requires `rate`"):
        load(MODULE.replace("rate=3e-3", "rate"))


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed")
def test_with_lightning_itself(load: Load) -> None:
    text = MODULE.replace("import pytorch_lightning as pl", "import lightning as pl")
    verdict = ask(
        "softmax-before-ce", load(text.replace("self.net(batch[0])", "self.net(batch[0]).softmax(1)"), package="")
    )
    assert verdict.outcome is Outcome.FAIL


@pytest.mark.filterwarnings("ignore")  # theirs
@pytest.mark.skipif(importlib.util.find_spec("lightning") is None, reason="lightning is not installed")
def test_an_epoch_that_is_cut_short_is_evaluated_before_early_stopping_asks(load: Load) -> None:
    text = MODULE.replace("import pytorch_lightning as pl", "import lightning as pl").replace(
        "x[:64]", "x.repeat(9, 1)"
    )
    text = text.replace("y[:64]", "y.repeat(9)").replace("        F.cross", '        self.log("held_out", F.cross')
    text = text.replace("batch[1])\n\n    def configure", "batch[1]))\n\n    def configure")
    stops = """    def configure_callbacks(self):
        return [pl.pytorch.callbacks.EarlyStopping("held_out", patience=100)]

    def training_step"""
    trial = load(text.replace("    def training_step", stops), package="")
    for rule in ("missing-eval-mode", "train-not-restored", "non-finite-gradient"):
        verdict = ask(rule, trial)
        assert verdict.outcome is Outcome.PASS, (rule, verdict.reason or verdict.summary)
