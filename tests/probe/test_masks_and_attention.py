"""Attention over the wrong dimension, and models of sequences that see what they have to predict."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome


class Causal(nn.Module):
    """One attention layer over tokens, masked or not, with its softmax over a chosen dimension."""

    def __init__(self, mask: bool = True, dim: int = -1) -> None:
        super().__init__()
        self.embed, self.place = nn.Embedding(12, 16), nn.Parameter(torch.randn(10, 16))
        self.qkv, self.drop, self.head = nn.Linear(16, 48), nn.Dropout(0.1), nn.Linear(16, 12)
        self.mask, self.dim = mask, dim

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.place
        query, key, value = self.qkv(x).view(*tokens.shape, 3, 2, 8).permute(2, 0, 3, 1, 4)
        scores = query @ key.transpose(-2, -1) / 8**0.5
        if self.mask:
            scores = scores.masked_fill(torch.ones(10, 10).triu(1).bool(), -1e4)
        mixed = self.drop(F.softmax(scores, dim=self.dim)) @ value
        return self.head(mixed.transpose(1, 2).reshape(*tokens.shape, 16))


def next_token(model: nn.Module, shift: int = 1) -> Any:
    tokens = [torch.randint(12, (16, 11)) for _ in range(3)]
    batches = [(t[:, :10], t[:, shift : 10 + shift]) for t in tokens]
    return trial_of(model, batches, lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten()))


def test_a_language_model_without_its_mask() -> None:
    says(ask("future-leak", next_token(Causal(mask=False))), Outcome.FAIL, "sees the tokens it has to predict")
    says(ask("future-leak", next_token(Causal())), Outcome.PASS)


class Masked(nn.Module):
    """Attention of torch over tokens, with a mask of its own."""

    def __init__(self, mask: Tensor, layer: bool) -> None:
        super().__init__()
        self.embed, self.place, self.head = nn.Embedding(12, 16), nn.Parameter(torch.randn(10, 16)), nn.Linear(16, 12)
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True) if layer else None
        self.mask = mask

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens) + self.place
        if self.layer is not None:
            return self.head(self.layer(x, src_mask=self.mask))
        return self.head(F.scaled_dot_product_attention(x, x, x, self.mask))


ONES = torch.ones(10, 10, dtype=torch.bool)


@pytest.mark.parametrize(
    ("mask", "layer"),
    [
        (ONES.tril(-1), True),
        (torch.zeros(10, 10).masked_fill(ONES.tril(-1), float("-inf")), True),
        (ONES.triu(), False),
    ],
)
def test_a_causal_mask_the_wrong_way_round(mask: Tensor, layer: bool) -> None:
    says(ask("future-leak", next_token(Masked(mask, layer))), Outcome.FAIL, "is the wrong way round", "of 10 places")


@pytest.mark.parametrize(
    ("mask", "layer"), [(torch.zeros(10, 10, dtype=torch.bool), True), (ONES, False), (ONES.tril(1), False)]
)
def test_a_mask_that_shows_too_much_is_not_the_wrong_way_round(mask: Tensor, layer: bool) -> None:
    says(ask("future-leak", next_token(Masked(mask, layer))), Outcome.FAIL, "sees the tokens it has to predict")


class Convolved(nn.Module):
    """Places come last in what it says, as cross_entropy takes them; there may be as many as classes."""

    def __init__(self, ahead: int, classes: int) -> None:
        super().__init__()
        self.embed, self.conv, self.head = nn.Embedding(12, 16), nn.Conv1d(16, 16, 3), nn.Conv1d(16, classes, 1)
        self.ahead = ahead

    def forward(self, tokens: Tensor) -> Tensor:
        x = F.pad(self.embed(tokens).transpose(1, 2), (2 - self.ahead, self.ahead))
        said: Tensor = self.head(torch.relu(self.conv(x)))
        return said


@pytest.mark.parametrize("classes", [10, 12])
@pytest.mark.parametrize(("ahead", "outcome"), [(0, Outcome.PASS), (1, Outcome.FAIL)])
def test_a_convolution_that_reads_ahead(ahead: int, outcome: Outcome, classes: int) -> None:
    tokens = [torch.randint(classes, (16, 11)) for _ in range(3)]
    batches = [(t[:, :10], t[:, 1:]) for t in tokens]
    trial = trial_of(Convolved(ahead, classes), batches, lambda m, b: F.cross_entropy(m(b[0]), b[1]))
    says(ask("future-leak", trial), outcome, *(["first in `conv"] if ahead else []))


def test_a_causal_mask_is_as_it_should_be() -> None:
    for mask, layer in ((ONES.triu(1), True), (ONES.tril(), False)):
        says(ask("future-leak", next_token(Masked(mask, layer))), Outcome.PASS)


class Forced(nn.Module):
    """A decoder that begins with a summary of the sequence, or with nothing, and is fed its answers step by step."""

    def __init__(self, late: int, summary: bool) -> None:
        super().__init__()
        self.embed, self.cell, self.head = nn.Embedding(12, 16), nn.GRUCell(16, 16), nn.Linear(16, 12)
        self.late, self.summary = late, summary

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        fed = F.pad(x, (0, 0, self.late, 0))
        state, outputs = x.mean(1) * self.summary, []
        for place in range(tokens.shape[1]):
            state = self.cell(fed[:, place], state)
            outputs.append(self.head(state))
        return torch.stack(outputs, dim=1)


def test_targets_that_are_the_inputs() -> None:
    says(ask("future-leak", next_token(Causal(), shift=0)), Outcome.WARN, "input tokens themselves")
    says(ask("future-leak", next_token(Forced(late=0, summary=False), shift=0)), Outcome.WARN, "nothing to predict")
    assert ask("future-leak", next_token(Forced(late=1, summary=False), shift=0)).outcome is Outcome.SKIP
    assert ask("future-leak", next_token(Forced(late=1, summary=True), shift=0)).outcome is Outcome.SKIP


class Hiding(Causal):
    """Hides what the loss asks for itself, before it reads anything."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(torch.where(torch.arange(10) % 4 == 1, 0, tokens))


def filled_in(model: nn.Module, hidden: int, shift: int = 0) -> Any:
    """Every fourth place is asked for; of these every `hidden`-th is masked, none where it is 0."""
    place, batches = torch.arange(10), []
    for tokens in (torch.randint(1, 12, (16, 11)) for _ in range(3)):
        asked = (place % 4 == 1).expand(16, 10)
        kept = asked & (torch.arange(160).view(16, 10) % hidden == 0) if hidden else asked & False
        given, wanted = tokens[:, :10].masked_fill(kept, 0), tokens[:, shift : 10 + shift]
        batches.append((given, wanted.masked_fill(~asked, -100)))
    return trial_of(model, batches, lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten()))


def test_tokens_to_fill_in_that_nobody_hid() -> None:
    says(ask("future-leak", filled_in(Causal(mask=False), 0)), Outcome.WARN, "none of them is hidden")
    says(ask("future-leak", filled_in(Causal(), 0)), Outcome.WARN, "at all 48 places that the loss asks for")


@pytest.mark.parametrize(
    "trial",
    [
        lambda: filled_in(Causal(mask=False), 1),
        lambda: filled_in(Causal(mask=False), 7),
        lambda: filled_in(Hiding(mask=False), 0),
        lambda: filled_in(Forced(late=1, summary=False), 0),
    ],
    ids=("all", "some", "in the model", "feeds back"),
)
def test_tokens_to_fill_in_that_are_hidden(trial: Any) -> None:
    assert ask("future-leak", trial()).outcome is Outcome.SKIP
    says(ask("future-leak", filled_in(Causal(), 0, shift=1)), Outcome.PASS)


def chosen(model: nn.Module, hides: bool, padded: bool = False) -> Any:
    """The loss is given nothing but the places that a mask chooses: a third of them, or what is no padding."""
    generator = torch.Generator().manual_seed(0)
    tokens = [torch.randint(1, 12, (16, 10), generator=generator) for _ in range(3)]
    lengths = [torch.randint(2, 6, (16, 1), generator=generator) for _ in range(3)]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        asked = batch[1] if padded else torch.rand(batch[0].shape) < 0.3
        given = batch[0].masked_fill(asked, 0) if hides else batch[0]
        return F.cross_entropy(model(given)[asked], batch[0][asked])

    return trial_of(model, [(t, torch.arange(10) < length) for t, length in zip(tokens, lengths)], loss)


def test_tokens_that_a_mask_chooses_and_nobody_hid() -> None:
    says(ask("future-leak", chosen(Causal(mask=False), hides=False)), Outcome.WARN, "none of them is hidden")
    assert ask("future-leak", chosen(Causal(mask=False), hides=True)).outcome is Outcome.SKIP
    assert ask("future-leak", chosen(Causal(mask=False), hides=False, padded=True)).outcome is Outcome.SKIP


@pytest.mark.parametrize(("mask", "outcome"), [(False, Outcome.FAIL), (True, Outcome.PASS)])
def test_the_next_token_where_a_mask_chooses_what_is_no_padding(mask: bool, outcome: Outcome) -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        real = batch[0][:, 1:] > 0
        return F.cross_entropy(model(batch[0][:, :-1])[real], batch[0][:, 1:][real])

    batches = [(t.masked_fill(torch.arange(11) > 8, 0),) for t in torch.randint(1, 12, (3, 16, 11))]
    says(ask("future-leak", trial_of(Causal(mask=mask), batches, loss)), outcome)


class Carrying(nn.Module):
    """Reads on from a state, (layers, samples, width), as a loop over stretches of one text carries it on."""

    def __init__(self, both_ways: bool) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(12, 16), nn.Linear(16, 12)
        self.read = nn.GRU(16, 8 if both_ways else 16, batch_first=True, bidirectional=both_ways)

    def forward(self, tokens: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        hidden, state = self.read(self.embed(tokens), state)
        return self.head(hidden), state


@pytest.mark.parametrize(("both_ways", "outcome"), [(True, Outcome.FAIL), (False, Outcome.PASS)])
def test_a_text_that_is_read_on_from_a_state(both_ways: bool, outcome: Outcome) -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        state = torch.zeros(2, 10, 8) if both_ways else torch.zeros(1, 10, 16)
        return F.cross_entropy(model(batch[0], state)[0].flatten(0, 1), batch[1].flatten())

    batches = [(t[:, :10], t[:, 1:]) for t in torch.randint(12, (3, 10, 11))]  # as many samples as places
    says(ask("future-leak", trial_of(Carrying(both_ways), batches, loss)), outcome)


def test_a_tagger_may_look_both_ways() -> None:
    batches = [(torch.randint(12, (16, 10)), torch.randint(12, (16, 10))) for _ in range(3)]
    trial = trial_of(Causal(mask=False), batches, lambda m, b: F.cross_entropy(m(b[0]).flatten(0, 1), b[1].flatten()))
    assert ask("future-leak", trial).outcome is Outcome.SKIP


@pytest.mark.parametrize(("dim", "outcome"), [(1, Outcome.WARN), (2, Outcome.WARN), (-1, Outcome.PASS)])
def test_attention_over_another_dimension(dim: int, outcome: Outcome) -> None:
    says(ask("attention-normalised-wrongly", next_token(Causal(dim=dim))), outcome)


class Lettered(nn.Module):
    """What is weighed is summed by an einsum of two letters more than its result has."""

    def __init__(self, dim: int, letters: str, keys: int = 4, first: bool = True) -> None:
        super().__init__()
        self.score, self.lift, self.head = nn.Linear(2, keys), nn.Linear(2, 6), nn.Linear(24, 5)
        self.dim, self.letters, self.first = dim, letters, first

    def forward(self, x: Tensor) -> Tensor:
        places = x.view(len(x), 4, 2)
        weights, values = self.score(places).softmax(self.dim), self.lift(places)
        pair = (weights, values) if self.first else (values, weights)
        return self.head(torch.einsum(self.letters, *pair).flatten(1))


@pytest.mark.parametrize(
    ("model", "outcome"),
    [
        (lambda: Lettered(1, "bij,bjd->bid"), Outcome.WARN),
        (lambda: Lettered(2, "bij,bjd->bid"), Outcome.PASS),
        (lambda: Lettered(1, "bij,bid->bjd"), Outcome.PASS),
        (lambda: Lettered(0, "bij,bjd->bid"), Outcome.SKIP),
        (lambda: Lettered(2, "bjc,bjd->bcd", keys=3), Outcome.SKIP),
        (lambda: Lettered(2, "bid,bij->bjd", first=False), Outcome.SKIP),
        (lambda: Lettered(2, "bij,bjd->bijd"), Outcome.SKIP),
    ],
    ids=("queries", "keys", "other way", "samples", "centres", "along links", "nothing summed"),
)
def test_attention_in_letters(model: Any, outcome: Outcome) -> None:
    net = model()
    net.head = nn.LazyLinear(5)
    net(torch.randn(2, 8))
    assert ask("attention-normalised-wrongly", trial_of(net, classes(8), cross_entropy)).outcome is outcome


def test_a_softmax_over_classes_of_pixels_is_no_attention() -> None:
    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.head = nn.Conv2d(1, 4, 1), nn.Linear(256, 5)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.layer(x).softmax(dim=1).flatten(1))

    trial = trial_of(Mixed(), classes(1, 8, 8), cross_entropy)
    assert ask("attention-normalised-wrongly", trial).outcome is Outcome.SKIP


Scored = Callable[[Tensor, Tensor], Tensor]


class Scaled(nn.Module):
    """One layer of attention whose scores are made in some way, with projections of their own or in one layer."""

    def __init__(self, score: Scored) -> None:
        super().__init__()
        self.lift, self.qkv, self.head = nn.Linear(4, 16), nn.Linear(16, 48), nn.Linear(16, 5)
        self.score = score

    def forward(self, x: Tensor) -> Tensor:
        query, key, value = self.qkv(self.lift(x.view(len(x), 2, 4))).chunk(3, -1)
        return self.head((self.score(query, key).softmax(-1) @ value).mean(1))  # type: ignore[no-any-return]


def scaled(score: Scored) -> Any:
    return trial_of(Scaled(score), classes(8), cross_entropy)


UPSIDE_DOWN: dict[str, Scored] = {
    "times": lambda q, k: q @ k.transpose(1, 2) * math.sqrt(q.shape[-1]),
    "over a power": lambda q, k: torch.matmul(q, k.transpose(1, 2)) / q.shape[-1] ** -0.5,
    "the query": lambda q, k: (q * 16**0.5) @ k.mT,
    "both": lambda q, k: torch.bmm(16**0.25 * q, (k * 16**0.25).transpose(1, 2)),
    "in a tensor": lambda q, k: q @ k.transpose(1, 2) * torch.tensor(16.0).sqrt(),
}
SCALED: dict[str, Scored] = {
    "over": lambda q, k: q @ k.transpose(1, 2) / math.sqrt(16),
    "not at all": lambda q, k: q @ k.transpose(1, 2),
    "over all": lambda q, k: (q / 16) @ k.transpose(1, 2),
    "sharper": lambda q, k: 2 * q @ k.transpose(1, 2),
    "by angles": lambda q, k: F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(1, 2) * 4,
    "the query up, the scores down": lambda q, k: (q * 4) @ k.transpose(1, 2) / 16,
}


@pytest.mark.parametrize("name", UPSIDE_DOWN)
def test_scores_that_are_multiplied_by_what_should_divide_them(name: str) -> None:
    verdict = ask("attention-normalised-wrongly", scaled(UPSIDE_DOWN[name]))
    says(verdict, Outcome.WARN, "are multiplied by 4, the square root of the 16 numbers of a query")


@pytest.mark.parametrize("name", SCALED)
def test_scores_of_another_scale(name: str) -> None:
    assert ask("attention-normalised-wrongly", scaled(SCALED[name])).outcome is Outcome.PASS


@pytest.mark.parametrize(("scale", "outcome"), [(4.0, Outcome.WARN), (0.25, Outcome.SKIP), (None, Outcome.SKIP)])
def test_fused_attention_is_told_its_scale(scale: float | None, outcome: Outcome) -> None:
    class Fused(Scaled):
        def forward(self, x: Tensor) -> Tensor:
            query, key, value = self.qkv(self.lift(x.view(len(x), 2, 4))).chunk(3, -1)
            return self.head(F.scaled_dot_product_attention(query, key, value, scale=scale).mean(1))  # type: ignore[no-any-return]

    trial = trial_of(Fused(SCALED["over"]), classes(8), cross_entropy)
    assert ask("attention-normalised-wrongly", trial).outcome is outcome


def test_a_layer_before_queries_keys_and_values_is_no_layer_too_many() -> None:
    assert ask("linear-without-activation", scaled(SCALED["over"])).outcome is Outcome.PASS
