"""Models traced and scripted, beside themselves."""

from __future__ import annotations

from pathlib import Path

import equivalent_models
import pytest
from equivalent_models import BranchesOnData, KeepsASize, KnowsThatItIsScripted, NearMiss, Unscriptable
from probe_programs import ask, classes, cross_entropy, mlp, trial_of
from torch import nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "scripted-model-differs"
TRACES, SCRIPTS = "torch.jit.trace(model, example).save('model.pt')", "torch.jit.script(model)"


def scripting(folder: Path, text: str, *parts: nn.Module) -> Trial:
    trial = trial_of(nn.Sequential(*parts, *mlp()), classes(8), cross_entropy)
    (folder / "train.py").write_text(text, encoding="utf-8")
    trial.entry = (str(folder / "train.py"), 1)
    return trial


@pytest.mark.parametrize("text", [TRACES, SCRIPTS, f"{TRACES}; {SCRIPTS}"])
def test_a_sound_model_is_the_same(tmp_path: Path, text: str) -> None:
    verdict = ask(RULE, scripting(tmp_path, text, nn.BatchNorm1d(8), nn.Dropout(0.5), NearMiss()))
    assert verdict.outcome is Outcome.PASS, verdict
    assert verdict.looked_at == text.count("jit.")


def test_a_branch_that_a_trace_has_kept_is_found_with_its_line(tmp_path: Path) -> None:
    verdict = ask(RULE, scripting(tmp_path, TRACES, BranchesOnData()))
    assert verdict.outcome is Outcome.FAIL
    assert "after torch.jit.trace, traced with 32 rows and asked with 1, the output" in verdict.summary
    line = (
        Path(equivalent_models.__file__).read_text(encoding="utf-8").splitlines()[verdict.findings[0].location.line - 1]
    )
    assert "if x.abs().mean() > 1" in line


def test_the_same_model_scripted_keeps_its_branch(tmp_path: Path) -> None:
    assert ask(RULE, scripting(tmp_path, SCRIPTS, BranchesOnData())).outcome is Outcome.PASS


def test_a_size_that_a_trace_has_kept_is_refused_for_others(tmp_path: Path) -> None:
    verdict = ask(RULE, scripting(tmp_path, TRACES, KeepsASize()))
    assert verdict.outcome is Outcome.WARN, verdict
    assert "RuntimeError" in verdict.summary
    assert "on a batch of 16, which it takes as it is" in verdict.summary


def test_a_model_that_knows_it_is_scripted_is_another(tmp_path: Path) -> None:
    verdict = ask(RULE, scripting(tmp_path, SCRIPTS, KnowsThatItIsScripted()))
    assert verdict.outcome is Outcome.FAIL
    assert "after torch.jit.script the output" in verdict.summary


def test_a_model_that_cannot_be_scripted_as_a_whole_decides_nothing(tmp_path: Path) -> None:
    verdict = ask(RULE, scripting(tmp_path, SCRIPTS, Unscriptable()))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "torch.jit.script does not take `model` as a whole" in verdict.reason


def test_who_makes_no_torchscript_is_not_asked(tmp_path: Path) -> None:
    text = "@torch.jit.script\ndef helper(x): return x"
    assert ask(RULE, scripting(tmp_path, text, BranchesOnData())).outcome is Outcome.SKIP
