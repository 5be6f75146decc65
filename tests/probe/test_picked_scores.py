"""Cross-entropies that are written by hand, normalised over the classes and over the samples."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, mlp, says, trial_of
from torch import Tensor

from mlcheck.core.outcome import Outcome

RULE = "softmax-over-batch"
Loss = Callable[[Tensor, Tensor], Tensor]


def picked(scores: Tensor, labels: Tensor) -> Tensor:
    return scores.gather(1, labels[:, None]).squeeze(1)


def rows(labels: Tensor) -> Tensor:
    return torch.arange(len(labels))


WRONG: dict[str, Loss] = {
    "logsumexp": lambda s, y: torch.logsumexp(s, dim=0).mean() - picked(s, y).mean(),
    "by exponentials": lambda s, y: s.exp().sum(0).log().mean() - s[rows(y), y].mean(),
    "log-probabilities": lambda s, y: -picked(s - s.logsumexp(0, keepdim=True), y).mean(),
    "softmax": lambda s, y: -picked(s.softmax(0), y).log().mean(),
}
RIGHT: dict[str, Loss] = {
    "logsumexp": lambda s, y: (torch.logsumexp(s, dim=1) - picked(s, y)).mean(),
    "by exponentials": lambda s, y: (s.exp().sum(-1).log() - s[rows(y), y]).mean(),
    "log-probabilities": lambda s, y: -picked(s - s.logsumexp(1, keepdim=True), y).mean(),
    "over instances and classes": lambda s, y: (
        -picked(s.softmax(1) * s.softmax(0), y).log().mean() - picked(s, y).mean()
    ),
    "a marginal beside": lambda s, y: F.cross_entropy(s, y) - 0.01 * (s.logsumexp(0).mean() - picked(s, y).mean()),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_cross_entropy_over_the_samples(name: str) -> None:
    trial = trial_of(mlp(8, 5), classes(8), lambda model, batch: WRONG[name](model(batch[0]), batch[1]))
    says(ask(RULE, trial), Outcome.FAIL, "over the samples of the batch")


@pytest.mark.parametrize("name", RIGHT)
def test_a_cross_entropy_over_the_classes(name: str) -> None:
    trial = trial_of(mlp(8, 5), classes(8), lambda model, batch: RIGHT[name](model(batch[0]), batch[1]))
    assert ask(RULE, trial).outcome is Outcome.PASS
