"""Ratios of overlaps written by hand: of scores, and of shares."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "output-cannot-reach-targets"
Overlap = Callable[[Tensor, Tensor], Tensor]


def dice(predicted: Tensor, mask: Tensor) -> Tensor:
    overlap = (predicted * mask).sum((1, 2, 3))
    return 1 - ((2 * overlap + 1) / (predicted.sum((1, 2, 3)) + mask.sum((1, 2, 3)) + 1)).mean()


def jaccard(predicted: Tensor, mask: Tensor) -> Tensor:
    flat, wanted = predicted.flatten(1), mask.flatten(1)
    overlap = (wanted * flat).sum(1)
    return 1 - (overlap / (flat.sum(1) + wanted.sum(1) - overlap + 1e-6)).mean()


def of_squares(predicted: Tensor, mask: Tensor) -> Tensor:
    return 1 - 2 * (predicted * mask).sum() / (predicted.pow(2).sum() + mask.pow(2).sum())


def masked_mean(predicted: Tensor, mask: Tensor) -> Tensor:
    return (predicted.square() * mask).sum() / mask.sum()


def segmenting(loss: Overlap, last: Callable[[Tensor], Tensor]) -> Trial:
    generator = torch.Generator().manual_seed(0)
    pictures = [torch.randn(8, 1, 6, 6, generator=generator) for _ in range(3)]
    batches = [(picture, (picture > 0.5).float()) for picture in pictures]
    return trial_of(nn.Conv2d(1, 1, 3, padding=1), batches, lambda model, batch: loss(last(model(batch[0])), batch[1]))


@pytest.mark.parametrize(
    ("loss", "last", "what"),
    [(dice, torch.tanh, "numbers of any sign"), (jaccard, lambda scores: scores, "the raw output of a layer")],
)
def test_an_overlap_of_scores(loss: Overlap, last: Callable[[Tensor], Tensor], what: str) -> None:
    verdict = ask(RULE, segmenting(loss, last))
    says(verdict, Outcome.WARN, "as Dice and IoU do", what)
    assert verdict.findings[0].location.path.endswith("test_overlap_ratios.py")


@pytest.mark.parametrize(
    ("loss", "last"),
    [(dice, torch.sigmoid), (jaccard, torch.sigmoid), (of_squares, torch.tanh), (masked_mean, torch.tanh)],
)
def test_overlaps_of_shares_and_other_ratios(loss: Overlap, last: Callable[[Tensor], Tensor]) -> None:
    assert ask(RULE, segmenting(loss, last)).outcome is Outcome.SKIP
