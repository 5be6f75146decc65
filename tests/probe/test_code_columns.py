"""A column of codes that no embedding is given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome

Columns = Callable[[Tensor], tuple[Tensor, Tensor]]


class Coded(nn.Module):
    def __init__(self, columns: Columns) -> None:
        super().__init__()
        self.columns = columns
        self.town, self.kind = nn.Embedding(6, 4), nn.Embedding(6, 4)
        self.out = nn.Linear(11, 3)

    def forward(self, codes: Tensor, numbers: Tensor) -> Tensor:
        town, kind = self.columns(codes)
        return self.out(torch.cat([self.town(town), self.kind(kind), numbers], 1))


class Pooled(nn.Module):
    """A sequence of which every second place is left out, as a stride does."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.out = nn.Embedding(6, 8), nn.Linear(8, 3)

    def forward(self, codes: Tensor, numbers: Tensor) -> Tensor:
        return self.out(self.embed(codes)[:, ::2].mean(1)) + numbers


def program(model: nn.Module, width: int = 2) -> Any:
    g = torch.Generator().manual_seed(0)
    batches = [
        (
            torch.randint(0, 6, (16, width), generator=g),
            torch.randn(16, 3, generator=g),
            torch.randint(0, 3, (16,), generator=g),
        )
        for _ in range(4)
    ]
    return trial_of(model, batches, lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2]))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (lambda c: (c[:, 0] * 0, c[:, 1]), "codes[:, 0]"),
        (lambda c: (c[:, 1], c[:, 1]), "codes[:, 0]"),
        (lambda c: (c[:, 0], c[:, 0] % 3), "codes[:, 1]"),
    ],
)
def test_a_column_that_is_not_looked_up(columns: Columns, told: str) -> None:
    verdict = ask("input-ignored", program(Coded(columns)))
    assert verdict.outcome is Outcome.WARN
    assert told in verdict.summary


@pytest.mark.parametrize("columns", [lambda c: (c[:, 0], c[:, 1]), lambda c: (c[:, 1], (c[:, 0] + c[:, 1]) % 6)])
def test_columns_that_are(columns: Columns) -> None:
    assert ask("input-ignored", program(Coded(columns))).outcome is Outcome.PASS


def test_places_of_a_sequence_are_no_columns() -> None:
    assert ask("input-ignored", program(Pooled(), width=6)).outcome is Outcome.PASS
