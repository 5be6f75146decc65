"""Programs that ask for deterministic operations, and those that have none."""

from __future__ import annotations

from pathlib import Path

import equivalent_models
import pytest
import torch
from equivalent_models import Unpools
from probe_programs import ask, classes, cross_entropy, mlp, trial_of
from torch import nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "nondeterministic-operation"
ASKS = "torch.use_deterministic_algorithms(True, warn_only=True)"


def asking(folder: Path, text: str, *parts: nn.Module) -> Trial:
    trial = trial_of(nn.Sequential(*parts, *mlp()), classes(8), cross_entropy)
    (folder / "train.py").write_text(text, encoding="utf-8")
    trial.entry = (str(folder / "train.py"), 1)
    return trial


def test_an_operation_is_told_with_its_line(tmp_path: Path) -> None:
    verdict = ask(RULE, asking(tmp_path, ASKS, nn.Linear(8, 8), Unpools()))
    assert verdict.outcome is Outcome.WARN, verdict
    assert "max_unpool" in verdict.summary
    line = (
        Path(equivalent_models.__file__).read_text(encoding="utf-8").splitlines()[verdict.findings[0].location.line - 1]
    )
    assert "F.max_unpool1d(" in line
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(
    "text",
    [ASKS, "torch.backends.cudnn.deterministic = True", "pl.Trainer_of(deterministic=True)", "set_deterministic(1)"],
)
def test_deterministic_operations_pass_on_the_device_they_are_meant_for(tmp_path: Path, text: str) -> None:
    verdict = ask(RULE, asking(tmp_path, text))
    assert verdict.outcome is Outcome.PASS, verdict
    assert "raises on cpu" in verdict.summary


def test_a_program_for_a_gpu_is_not_judged_on_the_cpu(tmp_path: Path) -> None:
    verdict = ask(RULE, asking(tmp_path, f"{ASKS}; model.to('cuda')"))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "run this where there is one" in verdict.reason


@pytest.mark.parametrize("text", ["torch.manual_seed(0)", "torch.backends.cudnn.deterministic = False"])
def test_who_does_not_ask_for_determinism_is_not_asked(tmp_path: Path, text: str) -> None:
    assert ask(RULE, asking(tmp_path, text, nn.Linear(8, 8), Unpools())).outcome is Outcome.SKIP
