"""A small program in several states, and lint over it with a cache: what the tests of the cache share."""

from __future__ import annotations

from pathlib import Path

from mlcheck.core.report import Report
from mlcheck.lint.run import LintSettings, run_lint

NET = """\
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.drop = nn.Dropout()

    def forward(self, x):
        return self.drop(self.layer(x))
"""
TRAIN = """\
import torch
from torch import nn
from net import Net
from steps import evaluate


def train(loader, val_loader):
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(inputs), labels)
        loss.backward()
        optimizer.step()
    evaluate(model, val_loader)
"""
STEPS = """\
import torch


def evaluate(model, val_loader):
    model.eval()
    with torch.no_grad():
        for inputs, labels in val_loader:
            print(model(inputs))
"""
# Each file in several states: sound, with one defect or another, without its imports, broken, moved down.
STATES = {
    "net.py": [NET, NET.replace("return self.drop(self.layer(x))", "return self.layer(x).softmax(1)"), "", "class ("],
    "train.py": [
        TRAIN,
        TRAIN.replace("        optimizer.zero_grad()\n", ""),
        TRAIN.replace("from net import Net", "from other.net import Net"),
        TRAIN.replace("from steps import evaluate\n", ""),
        "# moved\n\n" + TRAIN.replace("        optimizer.zero_grad()\n", ""),
    ],
    "steps.py": [
        STEPS,
        STEPS.replace("    with torch.no_grad():\n        for", "    if True:\n        for"),
        STEPS.replace("    model.eval()\n", ""),
        "größe = 1\n" + STEPS.replace("    with torch.no_grad():", "    if True:"),
    ],
    "other/net.py": [NET, NET.replace("self.drop(self.layer(x))", "nn.functional.log_softmax(self.layer(x), 1)")],
    "alone.py": [
        TRAIN.replace("from net import Net", "Net = torch.nn.Identity").replace("from steps import evaluate\n", ""),
        "def run(trainer, loader):\n    trainer.evaluate(loader)\n",
        "x = 1  # mlcheck: ignore[missing-zero-grad] nothing here\n",
    ],
}


def write(files: dict[str, str]) -> None:
    for name, text in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")


def first_state() -> dict[str, str]:
    return {name: states[0] for name, states in STATES.items()}


def lint(cache: str = ".cache", **more: object) -> Report:
    return run_lint(["."], LintSettings(cache=cache, **more))  # type: ignore[arg-type]


def said(report: Report) -> tuple[object, ...]:
    return report.results, report.notices
