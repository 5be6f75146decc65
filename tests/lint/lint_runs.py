"""Runs of lint in the present folder: a program with one defect, and what a report says of it."""

from __future__ import annotations

from pathlib import Path

from mlcheck.core.report import Report, Result
from mlcheck.lint.run import LintSettings, run_lint

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
CAREFUL = FORGETFUL.replace("        loss.backward()", "        optimizer.zero_grad()\n        loss.backward()")
RULE = "missing-zero-grad"


def write(name: str, text: str | bytes) -> None:
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def lint(*paths: str, settings: LintSettings | None = None) -> Report:
    return run_lint(paths or ["."], settings or LintSettings())


def result(report: Report, rule: str = RULE) -> Result:
    (found,) = (result for result in report.results if result.rule == rule)
    return found


def places(report: Report, rule: str = RULE) -> list[tuple[str, int]]:
    return [(finding.location.path, finding.location.line) for finding in result(report, rule).findings]
