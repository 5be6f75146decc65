"""The gallery: text where a vocabulary is found, classes laid over pictures, and ids where nothing fits."""

from __future__ import annotations

import base64
import io
import string
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image
from probe_programs import ask, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.trial.trial import Trial

TEXT = "the ferry leaves at seven"
LETTERS = dict(zip(" " + string.ascii_lowercase, range(27)))


class Holder:
    """A user's object with one attribute."""

    def __init__(self, vocabulary: Any) -> None:
        self.vocabulary = vocabulary


class WordTokenizer:
    def encode(self, text: str) -> list[int]:
        return [LETTERS[letter] for letter in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(list(LETTERS)[number] for number in ids)


class Tagger(nn.Module):
    def __init__(self, words: int = 27) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(words, 8), nn.Linear(8, 2)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embed(ids).mean(1))


def reading(vocabulary: Any) -> Trial:
    ids = torch.tensor([[LETTERS[letter] for letter in TEXT]] * 4)
    batches = [(ids, torch.tensor([0, 1, 0, 1]))]
    trial = trial_of(Tagger(), batches, lambda m, b: F.cross_entropy(m(b[0]), b[1]))
    trial.objects = (Holder(vocabulary),)
    return trial


@pytest.mark.parametrize(
    "vocabulary",
    [LETTERS, {number: letter for letter, number in LETTERS.items()}, list(LETTERS), WordTokenizer()],
    ids=["word to id", "id to word", "list of words", "tokenizer"],
)
def test_token_ids_are_written_as_text(vocabulary: Any) -> None:
    figure = ask("batch-not-reviewed", reading(vocabulary)).figures[0]
    assert figure.title.endswith("decoded")
    assert figure.data["text"].splitlines()[1] == f"1: '{TEXT}'"


class Segmented(Tagger):
    """Reads a few places of a text of two kinds of parts."""

    def __init__(self) -> None:
        super().__init__()
        self.kind = nn.Embedding(2, 8)

    def forward(self, ids: Tensor, kinds: Tensor, places: Tensor) -> Tensor:
        features = self.embed(ids) + self.kind(kinds)
        return self.head(features.gather(1, places[:, :, None].expand(-1, -1, 8)).mean(1))


def test_kinds_and_places_are_no_words() -> None:
    ids = torch.tensor([[LETTERS[letter] for letter in TEXT]] * 4)
    batch = (ids, torch.arange(ids.numel()).view_as(ids) % 2, torch.tensor([[0, 2]] * 4), torch.tensor([0, 1, 0, 1]))
    trial = trial_of(Segmented(), [batch], lambda m, b: F.cross_entropy(m(*b[:3]), b[3]))
    trial.objects = (Holder(LETTERS),)
    text, kinds, places = ask("batch-not-reviewed", trial).figures[:3]
    assert text.data["text"].splitlines()[1] == f"1: '{TEXT}'"
    assert kinds.title == "input kinds: the first 4 samples"
    assert kinds.data["text"].startswith("0 1 0 1")
    assert places.data["text"].splitlines()[0] == "0 2"


@pytest.mark.parametrize(
    "vocabulary",
    [None, ["red", "green", "blue", "black", "white"], {"epochs": 3, "lr": 1, "a": 2, "b": 4, "c": 5}, LETTERS.items()],
    ids=["none", "a list of classes", "settings", "a view"],
)
def test_what_is_no_vocabulary_leaves_ids(vocabulary: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = reading(vocabulary)
    monkeypatch.delitem(globals(), "LETTERS")
    figure = ask("batch-not-reviewed", trial).figures[0]
    assert "token ids" in figure.title


def test_classes_are_laid_over_pictures() -> None:
    figures = ask("batch-not-reviewed", SOUND["segmentation"]()).figures
    laid = next(figure for figure in figures if "classes of its pixels" in figure.title)
    png = Image.open(io.BytesIO(base64.b64decode(laid.data["tiles"][0]["png"])))
    assert len(laid.data["tiles"]) == 8
    assert laid.data["tiles"][0]["caption"] == "0, 1"
    red, green, blue = torch.as_tensor(np.array(png.convert("RGB"))).long().unbind(-1)
    assert bool((red > blue + 40).any())
    assert bool(((red == green) & (green == blue)).any())


def test_a_mask_of_floats_is_counted_by_its_classes() -> None:
    batches = [(torch.randn(4, 1, 8, 8), (torch.rand(4, 1, 8, 8) > 0.7).float())]
    model = nn.Conv2d(1, 1, 3, padding=1)
    trial = trial_of(model, batches, lambda m, b: F.binary_cross_entropy_with_logits(m(b[0]), b[1]))
    bars = [figure for figure in ask("batch-not-reviewed", trial).figures if figure.kind == "bars"]
    assert [figure.data["labels"] for figure in bars] == [["0", "1"]]


class Timed(nn.Module):
    """Noises what it is given to a time that it draws, and embeds the time first."""

    def __init__(self) -> None:
        super().__init__()
        self.clock, self.net = nn.Linear(1, 6), nn.Linear(6, 6)

    def forward(self, pictured: Tensor) -> Tensor:
        time = torch.rand(len(pictured), 1)
        embedded = self.clock(time)
        noise = torch.randn_like(pictured)
        return (self.net(time * pictured + (1 - time) * noise + embedded) - (pictured - noise)).pow(2).mean()


@pytest.mark.parametrize("direct", [True, False], ids=["by forward", "as a call"])
def test_what_a_model_is_given_by_its_forward(direct: bool) -> None:
    before = Timed.forward
    trial = trial_of(Timed(), [torch.randn(4, 6)], lambda m, x: m.forward(x) if direct else m(x))
    verdict = ask("batch-not-reviewed", trial)
    assert verdict.summary.startswith("input pictured (4, 6)")
    assert Timed.forward is before


def test_what_is_drawn_by_a_module_without_weights_is_not_the_model_s_input() -> None:
    hide, model = nn.Dropout(0.5), nn.Linear(6, 6)
    batches = [torch.randn(4, 6)]
    trial = trial_of(model, batches, lambda m, x: (m(x * hide(torch.ones(4, 1))) - x).pow(2).mean())
    assert ask("batch-not-reviewed", trial).summary.startswith("input (4, 6)")
    trial = trial_of(model, batches, lambda m, x: F.linear(hide(x), m.weight).pow(2).mean())
    assert ask("batch-not-reviewed", trial).summary.startswith("input (4, 6)")
