"""Sequences that hold a token for their label, and texts whose words only tell much about it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_programs import ask, cross_entropy, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

CLASSES, LENGTH, WORDS = 3, 12, 40
Write = Callable[[Tensor, Tensor, torch.Generator], None]


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(64, 8), nn.Linear(8, CLASSES)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.words(ids).mean(1))


def about(ids: Tensor, label: Tensor, draw: torch.Generator) -> None:
    """Two words of the label's ten, in most of the texts."""
    for row, one in zip(ids, label.tolist()):
        words = torch.randint(10 * one, 10 * one + 10, (2,), generator=draw)
        row[torch.randperm(LENGTH, generator=draw)[:2]] = words


def nothing(ids: Tensor, label: Tensor, draw: torch.Generator) -> None:
    return


def named(ids: Tensor, label: Tensor, draw: torch.Generator) -> None:
    about(ids, label, draw)
    places = torch.randint(LENGTH, (len(ids),), generator=draw)
    ids[torch.arange(len(ids)), places] = 50 + label


def nearly_named(ids: Tensor, label: Tensor, draw: torch.Generator) -> None:
    named(ids, label, draw)
    ids[::16, 0] = 50


def only_named(ids: Tensor, label: Tensor, draw: torch.Generator) -> None:
    """The task is to find the one word that matters."""
    nothing(ids, label, draw)
    ids[torch.arange(len(ids)), torch.randint(LENGTH, (len(ids),), generator=draw)] = 50 + label


def texts(write: Write) -> Trial:
    draw = torch.Generator().manual_seed(5)
    batches: list[Any] = []
    for _ in range(8):
        ids = torch.randint(WORDS, (48, LENGTH), generator=draw)
        label = torch.randint(CLASSES, (48,), generator=draw)
        write(ids, label, draw)
        batches.append((ids, label))
    return trial_of(Bag(), batches, cross_entropy)


def test_a_token_for_each_class() -> None:
    verdict = ask("target-in-input", texts(named))
    says(verdict, Outcome.WARN, "`batch[0]` contains its label", "(50, 51, 52)", "in 384 samples")


@pytest.mark.parametrize("write", [about, nothing, nearly_named, only_named])
def test_words_that_tell_much_or_are_the_task(write: Write) -> None:
    assert ask("target-in-input", texts(write)).outcome is Outcome.PASS
