"""A sample has the same answer wherever in the batch it stands."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, cross_entropy, says, trial_of, trial_on
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome

ROWS, STEPS, WIDTH = 6, 5, 8


class Tokens(nn.Module):
    """A bag of positioned tokens; `form` is how positions, noise and state come in."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self.form = form
        self.embed, self.head = nn.Embedding(20, WIDTH), nn.Linear(WIDTH, 3)
        self.mix = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
        self.register_buffer("table", torch.randn(ROWS if form == "state" else 50, 1, WIDTH))
        self.places = nn.Parameter(torch.randn(ROWS, WIDTH))

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.embed(tokens)
        match self.form:
            case "buffer over rows":
                x = x + self.table[: x.size(0)]
            case "learnt over rows":
                x = x + self.places[:, None]
            case "rows count":
                x = x * (1 + torch.arange(len(x))[:, None, None] / len(x))
            case "positions":
                x = x + self.table[: x.size(1), 0]
            case "noise":
                x = x + torch.randn_like(x)
            case "state":
                x = x + self.table
            case "shared by all":
                x = x + self.places[0]
        x = self.mix(x) if self.form == "each token" else (self.mix(x) * x.mean(1, keepdim=True))
        return self.head(x.mean(1))


@pytest.mark.parametrize("form", ["buffer over rows", "learnt over rows", "rows count"])
def test_positions_along_the_wrong_dimension(form: str) -> None:
    verdict = ask("batch-mixing", trial_of(Tokens(form), batches(), cross_entropy))
    assert verdict.outcome is Outcome.FAIL
    assert "with its place in the batch, first in mix.0 (Linear)" in verdict.summary


@pytest.mark.parametrize("form", ["positions", "noise", "state", "shared by all", "each token", "none"])
def test_what_belongs_to_the_sample_or_to_its_row(form: str) -> None:
    verdict = ask("batch-mixing", trial_of(Tokens(form), batches(), cross_entropy))
    assert verdict.outcome is Outcome.PASS, verdict.summary


def batches() -> list[tuple[Tensor, Tensor]]:
    torch.manual_seed(0)
    return [(torch.randint(0, 20, (ROWS, STEPS)), torch.randint(0, 3, (ROWS,))) for _ in range(4)]


class Letters(nn.Module):
    """A recurrent network that takes time first, as they do by default."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.rnn, self.head = nn.Embedding(20, WIDTH), nn.GRU(WIDTH, WIDTH), nn.Linear(WIDTH, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(self.rnn(self.embed(tokens))[0])


def each_letter(model: nn.Module, batch: Any) -> Tensor:
    return F.cross_entropy(model(batch[0]).flatten(0, 1), batch[1].flatten())


def letters(length: int = 12) -> TensorDataset:
    tokens = torch.randint(20, (128, length), generator=torch.Generator().manual_seed(0))
    return TensorDataset(tokens, tokens.roll(-1, 1))


def test_samples_that_the_loader_stacks_are_rows() -> None:
    verdict = ask("batch-mixing", trial_on(letters(), model=Letters(), loss=each_letter))
    says(verdict, Outcome.FAIL, "with the other samples of its batch", "in evaluation mode")


def test_time_may_come_first_where_the_program_puts_it_there() -> None:
    def along_time(rows: list[tuple[Tensor, Tensor]]) -> tuple[Tensor, ...]:
        return tuple(torch.stack(part, 1) for part in zip(*rows))

    def turned(model: nn.Module, batch: Any) -> Tensor:
        return each_letter(model, (batch[0].t(), batch[1].t()))

    for trial in (
        trial_on(letters(), model=Letters(), loss=each_letter, collate_fn=along_time),
        trial_on(letters(), model=Letters(), loss=turned),
        trial_on(letters(32), model=Letters(), loss=turned),
    ):
        assert ask("batch-mixing", trial).outcome is Outcome.INCONCLUSIVE
