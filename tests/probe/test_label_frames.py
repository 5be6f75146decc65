"""Frames and labels of the loss that aligns them."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "frames-fewer-than-labels"


def hearing(labels: list[list[int]], frames: list[int], zeroed: bool = False, joined: bool = False) -> Trial:
    counts = [len(row) for row in labels]
    padded = torch.tensor([row + [0] * (max(counts) - len(row)) for row in labels])
    given = torch.tensor([label for row in labels for label in row]) if joined else padded

    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        scores = model(batch).log_softmax(-1).transpose(0, 1)
        return F.ctc_loss(scores, given, torch.tensor(frames), torch.tensor(counts), zero_infinity=zeroed)

    return trial_of(nn.Linear(8, 7), [torch.randn(len(labels), 6, 8)] * 2, loss)


@pytest.mark.parametrize("joined", [True, False])
def test_more_labels_than_frames(joined: bool) -> None:
    labels = [[1, 2, 3, 4], [5, 6]]
    told = ask(RULE, hearing(labels, [3, 3], joined=joined))
    says(told, Outcome.FAIL, "2 of 4 samples have fewer frames", "3 for 4", "infinite")
    says(ask(RULE, hearing(labels, [3, 3], zeroed=True, joined=joined)), Outcome.WARN, "count for nothing")
    says(ask(RULE, hearing(labels, [3, 1], zeroed=True, joined=joined)), Outcome.FAIL, "4 of 4")
    says(ask(RULE, hearing(labels, [4, 2], joined=joined)), Outcome.PASS, "4 for 4")


def test_equal_labels_need_a_blank_between_them() -> None:
    says(ask(RULE, hearing([[1, 1, 2]], [3])), Outcome.FAIL, "one has 3 for 4")
    says(ask(RULE, hearing([[1, 2, 1]], [3])), Outcome.PASS)
    says(ask(RULE, hearing([[1, 1, 2]], [4])), Outcome.PASS)


def test_a_few_that_the_loss_is_told_to_drop() -> None:
    labels = [[1, 2, 3]] + [[4, 5]] * 39
    says(ask(RULE, hearing(labels, [2] * 40, zeroed=True)), Outcome.PASS, "2 of 80 samples too short")
    says(ask(RULE, hearing(labels, [2] * 40)), Outcome.FAIL)


def test_without_such_a_loss() -> None:
    assert ask(RULE, trial_of(mlp(), classes(8), cross_entropy)).outcome is Outcome.SKIP
