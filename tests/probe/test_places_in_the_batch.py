"""A sample has the same answer wherever in the batch it stands."""

from __future__ import annotations

import pytest
import torch
from probe_programs import ask, cross_entropy, trial_of
from torch import Tensor, nn

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
