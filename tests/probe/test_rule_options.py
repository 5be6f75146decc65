"""Numbers that a team sets for a rule decide its verdict, and the report says that they did."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from probe_programs import Asked, classes, cross_entropy, mlp, trial_of, trial_on
from torch import nn
from torch.utils.data import Subset, TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.probe.engine import ProbeOptions, run_probes
from mlcheck.report import html, terminal
from mlcheck.trial.trial import Trial

PROGRAM = """
import torch
from torch import nn

def build():
    data = [(50 * torch.randn(32, 4), torch.randint(3, (32,)))]
    return {"model": nn.Sequential(nn.Linear(4, 3)), "loss": nn.CrossEntropyLoss(), "train_loader": data}
"""


def large_inputs() -> Trial:
    return trial_of(mlp(), [(30 * x, y) for x, y in classes(8)], cross_entropy)


def large_targets() -> Trial:
    batches = [(x, 300 * torch.randn(32, 1)) for x, _ in classes(8)]
    return trial_of(mlp(out=1), batches, lambda model, batch: nn.functional.mse_loss(model(batch[0]), batch[1]))


def shared_samples() -> Trial:
    x, y = torch.randn(400, 8), torch.randint(5, (400,))
    return trial_on(Subset(TensorDataset(x, y), range(310)), Subset(TensorDataset(x, y), range(300, 400)))


def rare_class() -> Trial:
    return trial_on(TensorDataset(torch.randn(1000, 8), (torch.arange(1000) % 40 == 0).long()))


def strong_dropout() -> Trial:
    return trial_of(nn.Sequential(*mlp(), nn.Dropout(0.9)), classes(8), cross_entropy)


def far_value() -> Trial:
    x = torch.randn(600, 8)
    x[7, 2] = 1e4
    return trial_on(TensorDataset(x, torch.randint(5, (600,))))


@pytest.mark.parametrize(
    ("rule", "program", "option", "lenient"),
    [
        ("inputs-not-scaled", large_inputs, "rms", 100.0),
        ("targets-not-scaled", large_targets, "largest", 1e4),
        ("splits-overlap", shared_samples, "share", 0.15),
        ("classes-imbalanced", rare_class, "times", 100.0),
        ("dropout-too-strong", strong_dropout, "share", 0.95),
        ("outlier-values", far_value, "times", 1e6),
    ],
)
def test_what_alarms_by_default_passes_within_what_is_set(
    rule: str, program: Callable[[], Trial], option: str, lenient: float
) -> None:
    asked = Asked(program())
    assert asked.verdict(rule).outcome in {Outcome.WARN, Outcome.FAIL}
    assert asked.verdict(rule, {option: lenient}).outcome is Outcome.PASS


def test_the_report_says_what_was_set(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM, encoding="utf-8")
    options = ProbeOptions(
        entry="program.py:build",
        folder=str(tmp_path),
        only=("inputs-not-scaled", "dead-units"),
        rule_options={"inputs-not-scaled": {"rms": 200.0}},
    )
    report = run_probes(options)
    found = {result.rule: result for result in report.results}
    assert found["inputs-not-scaled"].outcome is Outcome.PASS
    assert (found["inputs-not-scaled"].options, found["dead-units"].options) == ({"rms": 200.0}, {})
    assert "with rms = 200, as this project sets it" in terminal.render(report, width=100, color=False)
    assert "with rms = 200, as this project sets it" in html.render(report)
