"""Accuracies of sequences: of their own places, or of the padding behind them as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

TAGS = 5
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]
Accuracy = Callable[[Tensor, Tensor, Tensor], Tensor]


def sentences(padding: int) -> list[Any]:
    """Words, a tag for each, and which of them are there: rows end at different places."""
    g = torch.Generator().manual_seed(4)
    batches = []
    for _ in range(4):
        words, tags = torch.randn(16, 12, 6, generator=g), torch.randint(1, TAGS, (16, 12), generator=g)
        real = torch.arange(12) < torch.randint(4, 13, (16, 1), generator=g)
        batches.append((words, torch.where(real, tags, padding), real))
    return batches


def tagging(loss: Loss, accuracy: Accuracy, padding: int = 0, name: str = "token_accuracy", told: bool = True) -> Trial:
    """`told` says that the evaluation has a loss as well."""
    model, batches = nn.Linear(6, TAGS), sentences(padding)

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            scores = model(batch[0])
            said = {name: float(accuracy(scores.argmax(-1), *batch[1:]))}
            return {**said, "loss": float(loss(scores, *batch[1:]))} if told else said

    trial = trial_of(model, batches, lambda net, batch: loss(net(batch[0]), *batch[1:]), evaluate=evaluate)
    trial.validation_batches = lambda: iter(batches)
    return trial


def by_id(scores: Tensor, tags: Tensor, _: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), tags.flatten(), ignore_index=int(tags.min()))


def weighed(scores: Tensor, tags: Tensor, real: Tensor) -> Tensor:
    each = F.cross_entropy(scores.transpose(1, 2), tags, reduction="none")
    return (each * real).sum() / real.sum()


def picked(scores: Tensor, tags: Tensor, real: Tensor) -> Tensor:
    return F.cross_entropy(scores[real], tags[real])


def hardest(scores: Tensor, tags: Tensor, _: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1), tags.flatten(), reduction="none").topk(40).values.mean()


def of_all(said: Tensor, tags: Tensor, _: Tensor) -> Tensor:
    return (said == tags).float().mean()


def padding_is_right(said: Tensor, tags: Tensor, real: Tensor) -> Tensor:
    return ((said == tags) | ~real).float().mean()


def of_words(said: Tensor, tags: Tensor, real: Tensor) -> Tensor:
    return (said == tags)[real].float().mean()


def of_sentences(said: Tensor, tags: Tensor, real: Tensor) -> Tensor:
    return (((said == tags) & real).sum(1) / real.sum(1)).mean()


def whole_sentences(said: Tensor, tags: Tensor, real: Tensor) -> Tensor:
    return ((said == tags) | ~real).all(1).float().mean()


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize(
    ("loss", "accuracy", "padding"),
    [
        (by_id, of_all, 0),
        (by_id, padding_is_right, -100),
        (weighed, of_all, 0),
        (weighed, lambda *given: 100 * of_all(*given), 0),
        (picked, of_all, 0),
    ],
)
def test_padding_that_the_loss_leaves_out_is_counted(loss: Loss, accuracy: Accuracy, padding: int, told: bool) -> None:
    verdict = ask("metric-wrong", tagging(loss, accuracy, padding, told=told))
    says(verdict, Outcome.WARN, "token_accuracy counts labels that the loss leaves out")


@pytest.mark.parametrize(
    ("loss", "accuracy", "padding", "name"),
    [
        (by_id, of_words, 0, "token_accuracy"),
        (by_id, of_words, -100, "token_accuracy"),
        (weighed, of_sentences, 0, "mean_accuracy"),
        (picked, whole_sentences, 0, "sentence_accuracy"),
        (hardest, of_all, 0, "token_accuracy"),
        (lambda s, t, _: F.cross_entropy(s.flatten(0, 1), t.flatten()), of_all, 0, "token_accuracy"),
        (by_id, of_all, 0, "share_of_zeros"),
    ],
)
def test_what_is_no_padding_or_is_not_counted(loss: Loss, accuracy: Accuracy, padding: int, name: str) -> None:
    assert ask("metric-wrong", tagging(loss, accuracy, padding, name)).outcome is Outcome.PASS
