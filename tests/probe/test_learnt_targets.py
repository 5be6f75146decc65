"""Teachers that learn from their students; and pairs of models that both are meant to learn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "teacher-not-detached"
Loss = Callable[[nn.ModuleDict, Any], Tensor]


def distilling(loss: Loss, whole: bool = True) -> Trial:
    both = nn.ModuleDict({"student": mlp(), "teacher": mlp()})
    trial = trial_of(both, classes(8), loss)
    if not whole:
        trial.optimizers = {"optimizer": torch.optim.SGD(both["student"].parameters(), lr=0.1)}
    return trial


def divergence(models: nn.ModuleDict, batch: Any) -> Tensor:
    target = models["teacher"](batch[0]).softmax(1)
    return F.kl_div(models["student"](batch[0]).log_softmax(1), target, reduction="batchmean")


def soft_labels(models: nn.ModuleDict, batch: Any) -> Tensor:
    scores = models["student"](batch[0])
    return F.cross_entropy(scores, target=models["teacher"](batch[0]).softmax(1)) + F.cross_entropy(scores, batch[1])


@pytest.mark.parametrize("loss", [divergence, soft_labels])
def test_a_teacher_that_the_optimizer_has(loss: Loss) -> None:
    says(ask(RULE, distilling(loss)), Outcome.WARN, "the only ones that", "teacher.0", "easier than")


def test_a_teacher_that_nobody_steps() -> None:
    says(ask(RULE, distilling(divergence, whole=False)), Outcome.WARN, "no optimizer has them")


def detached(models: nn.ModuleDict, batch: Any) -> Tensor:
    with torch.no_grad():
        target = models["teacher"](batch[0]).softmax(1)
    return F.kl_div(models["student"](batch[0]).log_softmax(1), target, reduction="batchmean")


def mutual(models: nn.ModuleDict, batch: Any) -> Tensor:
    one, other = (model(batch[0]).log_softmax(1) for model in models.values())
    return F.kl_div(one, other.exp(), reduction="batchmean") + F.kl_div(other, one.exp(), reduction="batchmean")


def trained_elsewhere(models: nn.ModuleDict, batch: Any) -> Tensor:
    """A prior that follows what it is compared with, which is trained by its own loss."""
    return divergence(models, batch) + F.cross_entropy(models["teacher"](batch[0]), batch[1])


def mixed_labels(models: nn.ModuleDict, batch: Any) -> Tensor:
    shares = 0.9 * F.one_hot(batch[1], 5) + 0.02
    return F.cross_entropy(models["student"](batch[0]), shares) + 0 * models["teacher"](batch[0]).sum()


@pytest.mark.parametrize("loss", [detached, mutual, trained_elsewhere, mixed_labels])
def test_targets_that_are_left_alone_or_meant_to_be_learnt(loss: Loss) -> None:
    assert ask(RULE, distilling(loss)).outcome is Outcome.PASS
