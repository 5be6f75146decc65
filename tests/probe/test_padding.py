"""Padding: models that read it, and models that mask it in one of the many right ways."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "padding-changes-output"
PLACES, WORDS = 12, 30


def sentences(batches: int = 2, size: int = 16) -> list[dict[str, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for _ in range(batches):
        lengths = torch.randint(3, PLACES + 1, (size,), generator=generator)
        mask = torch.arange(PLACES)[None] < lengths[:, None]
        tokens = torch.randint(1, WORDS, (size, PLACES), generator=generator) * mask
        found.append({"tokens": tokens, "mask": mask, "lengths": lengths, "label": tokens[:, 0] % 3})
    return found


class Reader(nn.Module):
    """An embedding, a body of one kind, and a head over what is left of time."""

    def __init__(self, body: str, outputs: int = 3) -> None:
        super().__init__()
        self.body = body
        self.embed = nn.Embedding(WORDS, 16, padding_idx=0)
        self.rnn = nn.LSTM(16, 16, batch_first=True)
        self.attend = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
        self.flat = nn.Linear(16 * PLACES, 16)
        self.head = nn.Linear(16, outputs)

    def forward(self, tokens: Tensor, mask: Tensor | None = None, lengths: Tensor | None = None) -> Tensor:
        return self.head(getattr(self, f"_{self.body}")(tokens, mask, lengths))

    def _mean(self, tokens: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor:
        return self.embed(tokens).mean(1)

    def _masked_mean(self, tokens: Tensor, mask: Any, lengths: Tensor | None) -> Tensor:
        return (self.embed(tokens) * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def _last(self, tokens: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor:
        return self.rnn(self.embed(tokens))[0][:, -1]

    def _packed(self, tokens: Tensor, mask: Tensor | None, lengths: Any) -> Tensor:
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        return self.rnn(packed)[1][0][-1]

    def _unmasked(self, tokens: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor:
        return self.attend(self.embed(tokens))[:, 0]

    def _attention(self, tokens: Tensor, mask: Any, lengths: Tensor | None) -> Tensor:
        return self.attend(self.embed(tokens), src_key_padding_mask=~mask.bool())[:, 0]

    def _tagged(self, tokens: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor:
        return self.rnn(self.embed(tokens))[0]

    def _trimmed(self, tokens: Tensor, mask: Tensor | None, lengths: Any) -> Tensor:
        return self.embed(tokens)[:, : int(lengths.max())].mean(1)

    def _left_sorted(self, tokens: Tensor, mask: Tensor | None, lengths: Any) -> Tensor:
        return self._packed(tokens[lengths.argsort()], mask, lengths.sort().values)

    def _random_start(self, tokens: Tensor, mask: Tensor | None, lengths: Any) -> Tensor:
        packed = pack_padded_sequence(self.embed(tokens), lengths, batch_first=True, enforce_sorted=False)
        return self.rnn(packed, (torch.randn(1, len(tokens), 16), torch.zeros(1, len(tokens), 16)))[1][0][-1]

    def _per_sample(self, tokens: Tensor, mask: Any, lengths: Tensor | None) -> Tensor:
        return self._masked_mean(tokens, mask, lengths) * 16 / len(tokens)

    def _fixed(self, tokens: Tensor, mask: Tensor | None, lengths: Tensor | None) -> Tensor:
        return self.flat(self.embed(tokens).flatten(1))


def reading(body: str, *given: str) -> Trial:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch["tokens"], **{name: batch[name] for name in given}), batch["label"])

    return trial_of(Reader(body), sentences(), loss)


def tagging(**options: Any) -> Trial:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        scores = model(batch["tokens"])
        return F.cross_entropy(scores.flatten(0, 1), batch["tokens"].flatten(), **options)

    return trial_of(Reader("tagged", WORDS), sentences(), loss)


@pytest.mark.parametrize(
    ("trial", "outcome", "said"),
    [
        (lambda: reading("mean", "mask"), Outcome.FAIL, "although `mask` tells the model"),
        (lambda: reading("unmasked", "mask"), Outcome.FAIL, "the output depends on the padding"),
        (lambda: reading("last", "lengths"), Outcome.FAIL, "although `lengths` tells the model"),
        (lambda: reading("trimmed", "lengths"), Outcome.FAIL, "although `lengths` tells the model"),
        (lambda: reading("last"), Outcome.WARN, "nothing tells the model where it ends"),
        (lambda: reading("unmasked"), Outcome.WARN, "nothing tells the model where it ends"),
        (lambda: tagging(), Outcome.WARN, "of the loss's targets are padding"),
    ],
    ids=[
        "mean over all",
        "attention to all",
        "last state",
        "mean up to the longest",
        "last state, untold",
        "attention, untold",
        "in the loss",
    ],
)
def test_models_that_read_padding(trial: Any, outcome: Outcome, said: str) -> None:
    says(ask(RULE, trial()), outcome, said)


@pytest.mark.parametrize(
    "trial",
    [
        lambda: reading("masked_mean", "mask"),
        lambda: reading("packed", "lengths"),
        lambda: reading("attention", "mask"),
        lambda: tagging(ignore_index=0),
        lambda: tagging(weight=torch.ones(WORDS).index_fill(0, torch.tensor([0]), 0.0)),
    ],
    ids=["masked mean", "packed", "masked attention", "causal, ignored", "causal, weight of zero"],
)
def test_models_that_do_not(trial: Any) -> None:
    verdict = ask(RULE, trial())
    assert verdict.outcome is Outcome.PASS, verdict.summary
    assert verdict.numbers["change"] < 1e-4


def test_answers_that_change_whatever_the_padding() -> None:
    """Rows that are left in another order, and noise: the padding has no part in it."""
    says(ask(RULE, reading("left_sorted", "lengths")), Outcome.INCONCLUSIVE, "with the other samples of its batch")
    says(ask("batch-mixing", reading("left_sorted", "lengths")), Outcome.FAIL, "with the other samples")
    says(ask(RULE, reading("per_sample", "mask")), Outcome.INCONCLUSIVE, "with the other samples of its batch")
    says(ask(RULE, reading("random_start", "lengths")), Outcome.INCONCLUSIVE, "draws random numbers in evaluation too")


def test_what_is_no_padding() -> None:
    assert ask(RULE, reading("fixed")).outcome is Outcome.INCONCLUSIVE
    full = [{**batch, "tokens": torch.randint(0, WORDS, (16, PLACES))} for batch in sentences()]
    trial = trial_of(Reader("last"), full, lambda m, b: F.cross_entropy(m(b["tokens"]), b["label"]))
    assert ask(RULE, trial).outcome is Outcome.SKIP


class Graphs(nn.Module):
    """A dense graph convolution and a mean over the nodes, all of them or the real ones."""

    def __init__(self, masks: bool) -> None:
        super().__init__()
        self.masks = masks
        self.first, self.head = nn.Linear(5, 16), nn.Linear(16, 3)

    def forward(self, x: Tensor, adjacency: Tensor, mask: Tensor) -> Tensor:
        nodes = F.relu(self.first(adjacency @ x))
        if not self.masks:
            return self.head(nodes.mean(1))
        return self.head((nodes * mask[..., None]).sum(1) / mask.sum(1, keepdim=True))


@pytest.mark.parametrize(("masks", "outcome"), [(True, Outcome.PASS), (False, Outcome.FAIL)])
def test_graphs_that_are_padded_both_ways(masks: bool, outcome: Outcome) -> None:
    generator = torch.Generator().manual_seed(0)
    sizes = torch.randint(3, PLACES + 1, (16,), generator=generator)
    mask = (torch.arange(PLACES)[None] < sizes[:, None]).float()
    edges = (torch.rand(16, PLACES, PLACES, generator=generator) < 0.5) * mask[:, None] * mask[..., None]
    x = torch.randn(16, PLACES, 5, generator=generator) * mask[..., None]
    batch = {"x": x, "adjacency": edges, "mask": mask, "label": sizes % 3}

    def loss(model: Any, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch["x"], batch["adjacency"], batch["mask"]), batch["label"])

    assert ask(RULE, trial_of(Graphs(masks), [batch], loss)).outcome is outcome


class OnlyLengths(nn.Module):
    """The first token stands for all of them, and the mask tells how many there are."""

    def __init__(self, first_only: bool) -> None:
        super().__init__()
        self.first_only = first_only
        self.embed, self.place = nn.Embedding(WORDS, 16), nn.Parameter(torch.randn(PLACES, 16))
        self.head = nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        mask = (tokens != 0).float()
        words = self.embed(tokens[:, :1]) if self.first_only else self.embed(tokens)
        hidden = (words + self.place).tanh() * mask[..., None]
        return self.head(hidden.sum(1) / mask.sum(1, keepdim=True))


@pytest.mark.parametrize("first_only", [True, False])
def test_tokens_of_which_only_the_padding_matters(first_only: bool) -> None:
    batches = []
    for batch in sentences():
        tokens = batch["tokens"].clone()
        tokens[:, 0] = 1
        batches.append((tokens, tokens.sum(1) % 3))
    trial = trial_of(OnlyLengths(first_only), batches, lambda m, b: F.cross_entropy(m(b[0]), b[1]))
    verdict = ask("input-ignored", trial)
    if first_only:
        says(verdict, Outcome.WARN, "only the padding matters")
    else:
        says(verdict, Outcome.PASS)


class Translator(nn.Module):
    """An encoder, and a decoder that is fed the answer one place late; with `both_ways` it reads all of it."""

    def __init__(self, both_ways: bool = False) -> None:
        super().__init__()
        self.embed, self.encode = nn.Embedding(WORDS, 16), nn.Linear(16, 16)
        self.decode = nn.GRU(16, 8 if both_ways else 16, batch_first=True, bidirectional=both_ways)
        self.head = nn.Linear(16, WORDS)

    def forward(self, source: Tensor, fed: Tensor) -> Tensor:
        real = (source != 0).float()[..., None]
        state = (self.encode(self.embed(source)) * real).sum(1, keepdim=True) / real.sum(1, keepdim=True)
        hidden, _ = self.decode(self.embed(fed))
        return self.head(hidden + state)


def translated(ignore: int = 0, fed_at: int = 0, both_ways: bool = False) -> Trial:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        answer = batch["tokens"]
        fed, wanted = answer[:, fed_at : fed_at + PLACES - 1], answer[:, 1:]
        return F.cross_entropy(model(batch["source"], fed).flatten(0, 1), wanted.flatten(), ignore_index=ignore)

    batches = [{**batch, "source": batch["tokens"] * 7 % WORDS} for batch in sentences()]
    return trial_of(Translator(both_ways), batches, loss)


def test_a_decoder_whose_padding_is_counted_in_the_loss() -> None:
    says(ask(RULE, translated(ignore=-100)), Outcome.WARN, "% of the loss's targets are padding")
    assert "targets are padding" not in ask(RULE, translated()).summary


class NextWord(nn.Module):
    """Reads all words of a sentence, and its loss compares each place with the next."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.read = nn.Embedding(WORDS, 16, padding_idx=0), nn.GRU(16, 16, batch_first=True)
        self.head = nn.Linear(16, WORDS)

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        packed = nn.utils.rnn.pack_padded_sequence(self.embed(tokens), lengths, True, enforce_sorted=False)
        hidden, _ = nn.utils.rnn.pad_packed_sequence(self.read(packed)[0], True, total_length=tokens.shape[1])
        return self.head(hidden)


@pytest.mark.parametrize("ignore", [0, -100])
def test_the_next_words_of_a_sentence_of_which_the_model_is_given_all(ignore: int) -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        scores, wanted = model(batch["tokens"], batch["lengths"])[:, :-1], batch["tokens"][:, 1:]
        return F.cross_entropy(scores.flatten(0, 1), wanted.flatten(), ignore_index=ignore)

    verdict = ask(RULE, trial_of(NextWord(), sentences(), loss))
    if ignore:
        says(verdict, Outcome.WARN, "% of the loss's targets are padding")
    else:
        says(verdict, Outcome.PASS)


class FixedLength(nn.Module):
    """Knows PLACES places, no fewer, and gives scores of `classes` for each."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(WORDS, 16, padding_idx=0), nn.Linear(16, classes)
        self.position = nn.Parameter(torch.randn(PLACES, 16))

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.embed(tokens) + self.position)


def hidden_words(batch: Any) -> Tensor:
    """Words to be found at a few places, and the filling id at all others."""
    return torch.where(torch.arange(PLACES) % 4 == 1, batch["tokens"], 0)


def ended(batch: Any) -> Tensor:
    """Each place's own word, the filling id at the end, once, and nothing wanted behind it."""
    behind = torch.arange(PLACES)[None] > batch["lengths"][:, None]
    return batch["tokens"].masked_fill(behind, -100)


def tagged(batch: Any) -> Tensor:
    """Tags, most of them the first, and nothing wanted of padding."""
    return (batch["tokens"] % 5 == 1).long().masked_fill(~batch["mask"], -100)


@pytest.mark.parametrize(
    ("wanted", "classes", "ignore", "outcome"),
    [
        (hidden_words, WORDS, -100, Outcome.WARN),
        (hidden_words, WORDS, 0, Outcome.INCONCLUSIVE),
        (ended, WORDS, -100, Outcome.INCONCLUSIVE),
        (tagged, 2, -100, Outcome.INCONCLUSIVE),
    ],
)
def test_padding_in_the_loss_of_a_model_that_knows_one_length(
    wanted: Any, classes: int, ignore: int, outcome: Outcome
) -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch["tokens"]).transpose(1, 2), wanted(batch), ignore_index=ignore)

    verdict = ask(RULE, trial_of(FixedLength(classes), sentences(), loss))
    assert verdict.outcome is outcome, verdict.reason or verdict.summary


def test_a_decoder_that_is_fed_its_answer() -> None:
    says(ask("future-leak", translated(fed_at=1)), Outcome.WARN, "the targets are the input tokens themselves")
    says(ask("future-leak", translated(both_ways=True)), Outcome.FAIL, "sees the tokens it has to predict")
    says(ask("future-leak", translated()), Outcome.PASS)


class OwnLoss(Translator):
    """As those of transformers: given its labels, it moves them by one for the decoder and computes the loss."""

    def forward(self, source: Tensor, labels: Tensor) -> Tensor:
        fed = F.pad(labels[:, :-1], (1, 0))
        return F.cross_entropy(super().forward(source, fed).flatten(0, 1), labels.flatten())


def test_labels_that_a_model_computes_its_loss_from_are_nothing_it_reads() -> None:
    batches = [{"source": batch["tokens"] * 7 % WORDS, "labels": batch["tokens"]} for batch in sentences()]
    trial = trial_of(OwnLoss(), batches, lambda model, batch: model(batch["source"], labels=batch["labels"]))
    assert ask("future-leak", trial).outcome is Outcome.SKIP
