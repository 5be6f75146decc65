"""A teacher with its dropout on, and models that are asked without gradients and may drop out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "teacher-in-train-mode"


def dropping() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.Dropout(0.2), nn.Linear(16, 5))


def distilling(teacher: nn.Module, times: int = 1, follow: bool = False) -> Trial:
    student = mlp()

    def loss(model: nn.Module, batch: Any) -> Tensor:
        with torch.no_grad():
            asked = [teacher(batch[0]) for _ in range(times)]
            if follow:
                for mine in teacher.parameters():
                    mine.mul_(0.99)
        return F.mse_loss(model(batch[0]), torch.stack(asked).mean(0))

    return trial_of(student, classes(8), loss)


def test_a_teacher_that_drops_out() -> None:
    says(ask(RULE, distilling(dropping())), Outcome.WARN, "`Sequential` is called without", "1 (Dropout)")
    says(ask(RULE, distilling(dropping().eval())), Outcome.PASS, "no dropout is active in `Sequential`")


def normalising(batches: int) -> nn.Module:
    teacher = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    for _ in range(batches):
        teacher(3 + torch.randn(32, 8))
    return teacher.requires_grad_(False)


def test_a_teacher_that_normalises_by_the_batch() -> None:
    says(ask(RULE, distilling(normalising(5))), Outcome.WARN, "1 (BatchNorm1d)` in it normalises by the batch at hand")
    assert ask(RULE, distilling(normalising(5).eval())).outcome is Outcome.PASS


def test_a_net_that_was_drawn_at_random_has_no_statistics_to_forget() -> None:
    assert ask(RULE, distilling(normalising(0))).outcome is Outcome.PASS
    assert ask(RULE, distilling(normalising(5), follow=True)).outcome is Outcome.SKIP


@pytest.mark.parametrize("trial", [distilling(dropping(), times=4), distilling(dropping(), follow=True)])
def test_what_may_drop_out(trial: Trial) -> None:
    assert ask(RULE, trial).outcome is Outcome.SKIP


def test_the_model_itself_asked_for_its_own_targets() -> None:
    def consistent(model: nn.Module, batch: Any) -> Tensor:
        with torch.no_grad():
            target = model(batch[0])
        return F.mse_loss(model(batch[0]), target)

    assert ask(RULE, trial_of(dropping(), classes(8), consistent)).outcome is Outcome.SKIP
