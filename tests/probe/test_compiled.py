"""Models compiled and exported, beside themselves."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

DIFFERS, BREAKS = "compiled-model-differs", "compiled-graph-breaks"


class Branches(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * x if torch.compiler.is_compiling() else x


class Breaks(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            return x + 1
        return x - 1


def compiling(folder: Path, *parts: nn.Module, text: str = "torch.compile(model)") -> Trial:
    trial = trial_of(nn.Sequential(*parts, *mlp()), classes(8), cross_entropy)
    (folder / "train.py").write_text(text)
    trial.entry = (str(folder / "train.py"), 1)
    return trial


@pytest.mark.slow
def test_a_sound_model_is_one_graph_and_the_same_model(tmp_path: Path) -> None:
    trial = compiling(
        tmp_path, nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), text="torch.export; torch.compile("
    )
    verdict = ask(DIFFERS, trial)
    assert verdict.outcome is Outcome.PASS, verdict
    assert "after torch.compile and after torch.export" in verdict.summary
    verdict = ask(BREAKS, trial)
    assert verdict.outcome is Outcome.PASS, verdict
    assert verdict.numbers == {"graph breaks": 0.0, "recompiled": 0.0}


@pytest.mark.slow
def test_a_model_that_branches_when_compiled_is_another(tmp_path: Path) -> None:
    verdict = ask(DIFFERS, compiling(tmp_path, Branches()))
    assert verdict.outcome is Outcome.FAIL
    assert "after torch.compile the output" in verdict.summary


@pytest.mark.slow
def test_a_break_is_told_with_its_line(tmp_path: Path) -> None:
    verdict = ask(BREAKS, compiling(tmp_path, Breaks()))
    assert verdict.outcome is Outcome.WARN
    place = verdict.findings[0].location
    assert place.path.endswith("test_compiled.py")
    assert "if x.sum() > 0" in Path(__file__).read_text().splitlines()[place.line - 1]


def test_who_does_not_compile_is_not_asked(tmp_path: Path) -> None:
    trial = SOUND["mlp"]()
    (tmp_path / "train.py").write_text("model = build()")
    trial.entry = (str(tmp_path / "train.py"), 1)
    assert ask(DIFFERS, trial).outcome is Outcome.SKIP
