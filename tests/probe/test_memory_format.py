"""Models on channels-last memory beside themselves on contiguous memory."""

from __future__ import annotations

from pathlib import Path

import equivalent_models
import pytest
from equivalent_models import ByMemory, ByView, Noise, Strided
from probe_programs import ask, classes, cross_entropy, trial_of
from torch import nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "channels-last-differs"


def convolving(folder: Path, last: nn.Module, text: str = "model.to(memory_format=torch.channels_last)") -> Trial:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), last, nn.Linear(256, 5))
    trial = trial_of(model, classes(3, 8, 8), cross_entropy)
    (folder / "train.py").write_text(text, encoding="utf-8")
    trial.entry = (str(folder / "train.py"), 1)
    return trial


@pytest.mark.parametrize("last", [nn.Flatten(), Strided()])
def test_a_sound_model_is_the_same_on_both(tmp_path: Path, last: nn.Module) -> None:
    verdict = ask(RULE, convolving(tmp_path, last))
    assert verdict.outcome is Outcome.PASS, verdict


def test_what_goes_by_memory_is_found(tmp_path: Path) -> None:
    verdict = ask(RULE, convolving(tmp_path, ByMemory()))
    assert verdict.outcome is Outcome.FAIL
    assert "the output of `model` on channels-last memory differs by" in verdict.summary


def test_a_view_that_raises_is_told_with_its_line(tmp_path: Path) -> None:
    verdict = ask(RULE, convolving(tmp_path, ByView()))
    assert verdict.outcome is Outcome.FAIL
    assert "on channels-last memory `model` raises RuntimeError: view size is not compatible" in verdict.summary
    line = (
        Path(equivalent_models.__file__).read_text(encoding="utf-8").splitlines()[verdict.findings[0].location.line - 1]
    )
    assert "x.view(len(x), -1)" in line


def test_who_does_not_ask_for_it_is_not_asked(tmp_path: Path) -> None:
    verdict = ask(RULE, convolving(tmp_path, ByMemory(), "model.cuda()"))
    assert verdict.outcome is Outcome.SKIP
    assert "does not ask" in verdict.reason


def test_a_model_without_images(tmp_path: Path) -> None:
    trial = trial_of(nn.Linear(8, 5), classes(8), cross_entropy)
    (tmp_path / "train.py").write_text("torch.channels_last", encoding="utf-8")
    trial.entry = (str(tmp_path / "train.py"), 1)
    assert "takes no images" in ask(RULE, trial).reason


def test_a_model_that_draws_is_not_compared(tmp_path: Path) -> None:
    assert ask(RULE, convolving(tmp_path, Noise())).outcome is Outcome.INCONCLUSIVE
