"""Ids that embeddings look up: one for all words, and a padding index that is a word."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

PLACES, WORDS = 10, 20


class Bag(nn.Module):
    def __init__(self, padding: int | None) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, 8, padding_idx=padding), nn.Linear(8, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids).mean(1))


def texts(low: int, high: int, pad: int = 0, left: bool = False) -> list[Any]:
    """Words from `low` to below `high`, filled up with `pad`."""
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(4):
        ids = torch.randint(low, high, (32, PLACES), generator=generator)
        sizes = torch.randint(5, PLACES + 1, (32, 1), generator=generator)
        ids = ids.masked_fill(torch.arange(PLACES) >= sizes, pad)
        found.append((ids.flip(1) if left else ids, ids[:, 0] % 3))
    return found


def reading(training: list[Any], padding: int | None = 0, evaluated: list[Any] | None = None) -> Trial:
    model = Bag(padding)
    trial = trial_of(model, training, lambda m, b: F.cross_entropy(m(b[0]), b[1]))
    trial.validation_batches = lambda: iter(evaluated or training)
    trial.evaluate_step = lambda b: {"val_loss": F.cross_entropy(model(b[0]), b[1]).item()}
    return trial


@pytest.mark.parametrize("left", [False, True])
def test_a_padding_index_that_is_a_word(left: bool) -> None:
    verdict = ask("padding-id-in-use", reading(texts(0, 8, left=left)))
    says(verdict, Outcome.WARN, "id 0 is the padding index of `embed`", "it is a real symbol as well")


def test_a_padding_index_for_padding_alone() -> None:
    for sound in (
        reading(texts(1, WORDS)),
        reading(texts(1, WORDS, left=True)),
        reading(texts(0, WORDS - 1, pad=WORDS - 1), padding=WORDS - 1),
        reading(texts(0, 8), evaluated=texts(1, 8)),  # words that are dropped while training
    ):
        assert ask("padding-id-in-use", sound).outcome is Outcome.PASS
    assert ask("padding-id-in-use", reading(texts(0, 8), padding=None)).outcome is Outcome.SKIP


@pytest.mark.parametrize(("pad", "left"), [(0, False), (0, True), (7, False)])
def test_one_id_for_all_words(pad: int, left: bool) -> None:
    says(ask("constant-feature", reading(texts(7, 8, pad, left))), Outcome.WARN, "every id that `embed` looks up is 7")


def test_ids_that_differ() -> None:
    for sound in (texts(1, WORDS), texts(1, 3), texts(5, 7, pad=5)):
        assert ask("constant-feature", reading(sound)).outcome is not Outcome.WARN


class Spoken(Bag):
    """Words beside who says them: of twenty speakers but one is in the data."""

    def __init__(self) -> None:
        super().__init__(0)
        self.speakers = nn.Embedding(WORDS, 8)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head((self.embed(ids) + self.speakers(torch.full_like(ids, 4))).mean(1))


def test_one_speaker_beside_many_words() -> None:
    trial = trial_of(Spoken(), texts(1, WORDS), lambda m, b: F.cross_entropy(m(b[0]), b[1]))
    assert ask("constant-feature", trial).outcome is not Outcome.WARN


class Table(nn.Module):
    def __init__(self, padding: int | None) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(6, 4, padding_idx=padding), nn.Linear(4, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids))


def of_categories(ids: Tensor, padding: int | None) -> Trial:
    batches = [(batch, batch % 3) for batch in ids.split(32)]
    return trial_of(Table(padding), batches, lambda m, b: F.cross_entropy(m(b[0]), b[1]))


def test_a_padding_index_that_is_a_category() -> None:
    verdict = ask("padding-id-in-use", of_categories(torch.arange(192) % 6, 0))
    says(verdict, Outcome.WARN, "id 0 is the padding index of `embed`", "any other of 6 categories", "pads nothing")
    assert ask("constant-feature", of_categories(torch.arange(192) % 6, 0)).outcome is not Outcome.WARN


@pytest.mark.parametrize(
    ("ids", "padding"),
    [
        (torch.arange(192) % 6, None),
        (1 + torch.arange(192) % 5, 0),
        ((1 + torch.arange(192) % 5).where(torch.arange(192) % 16 > 0, 0), 0),  # a value that is missing now and then
        ((1 + torch.arange(192) % 5).where(torch.arange(192) % 2 > 0, 0), 0),  # or in half of the rows
    ],
)
def test_categories_beside_a_padding_index(ids: Tensor, padding: int | None) -> None:
    assert ask("padding-id-in-use", of_categories(ids, padding)).outcome is not Outcome.WARN
