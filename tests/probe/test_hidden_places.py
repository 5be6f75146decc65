"""Masked autoencoders that are shown what they are to fill in, and what only looks like them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_on
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


class Filler(nn.Module):
    """Six places of four numbers each; attention lets every place see all of them."""

    def __init__(self, hide: Any) -> None:
        super().__init__()
        self.embed, self.out, self.hide = nn.Linear(4, 16), nn.Linear(16, 4), hide
        self.token, self.place = nn.Parameter(torch.zeros(16)), nn.Parameter(torch.randn(6, 16))
        self.attend = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True)

    def forward(self, x: Tensor, hidden: Tensor) -> Tensor:
        tokens = self.hide(self.embed(x), hidden[..., None], self.token) + self.place
        answer: Tensor = self.out(self.attend(tokens))
        return answer


def kept(tokens: Tensor, hidden: Tensor, token: Tensor) -> Tensor:
    return tokens + hidden * token


def replaced(tokens: Tensor, hidden: Tensor, token: Tensor) -> Tensor:
    return torch.where(hidden, token, tokens)


def by_mean(said: Tensor, x: Tensor, hidden: Tensor) -> Tensor:
    return ((said - x).pow(2).mean(-1) * hidden).sum() / hidden.sum()


def by_choice(said: Tensor, x: Tensor, hidden: Tensor) -> Tensor:
    return F.mse_loss(said[hidden], x[hidden])


def filling(hide: Any, compare: Any, before: Any = None, mask: Any = None) -> Trial:
    data = TensorDataset(torch.randn(96, 24, generator=torch.Generator().manual_seed(0)))

    def loss(model: nn.Module, batch: Any) -> Tensor:
        x = batch[0].view(-1, 6, 4)
        hidden = torch.rand(len(x), 6) < 0.5 if mask is None else mask(x)
        given = before(x, hidden) if before else x
        answer: Tensor = compare(model(given, hidden), x, hidden)
        return answer

    return trial_on(data, model=Filler(hide), loss=loss)


@pytest.mark.parametrize("compare", [by_mean, by_choice])
def test_a_mask_that_hides_nothing(compare: Any) -> None:
    says(ask("target-in-input", filling(kept, compare)), Outcome.WARN, "sees what it has to fill in", "8 of 8")


@pytest.mark.parametrize("compare", [by_mean, by_choice])
def test_what_is_hidden(compare: Any) -> None:
    emptied = filling(kept, compare, before=lambda x, hidden: x * ~hidden[..., None])
    swapped = filling(kept, compare, before=lambda x, hidden: torch.where(hidden[..., None], x.roll(1, 0), x))
    for sound in (filling(replaced, compare), emptied, swapped):
        assert ask("target-in-input", sound).outcome is not Outcome.WARN


def test_parts_that_are_not_hidden_on_purpose() -> None:
    def everywhere(said: Tensor, x: Tensor, hidden: Tensor) -> Tensor:
        return F.mse_loss(said, x)

    noisy = filling(kept, everywhere, before=lambda x, _: x + 0.3 * torch.randn_like(x))
    known = filling(kept, by_mean, mask=lambda x: x[..., 0] > 0)
    for sound in (noisy, known):
        assert ask("target-in-input", sound).outcome is not Outcome.WARN
