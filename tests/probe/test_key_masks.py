"""Masks of attention that hide the data, and those that hide what was filled up."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "attention-mask-inverted"
PLACES = 9


def padded(words: bool = False) -> list[Any]:
    """Sequences of 2 to 9 places, filled up with zeros; with words every one begins with the same."""
    draws = torch.Generator().manual_seed(3)
    found = []
    for _ in range(4):
        real = torch.arange(PLACES) < torch.randint(2, PLACES + 1, (24, 1), generator=draws)
        if words:
            x = torch.randint(2, 40, (24, PLACES), generator=draws).masked_fill(~real, 0)
            x[:, 0] = 1
        else:
            x = torch.randn(24, PLACES, 6, generator=draws) * real[:, :, None]
        found.append((x, real, torch.randint(5, (24,), generator=draws)))
    return found


class Joint(nn.Module):
    def __init__(self, hide: Any, words: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(40, 16) if words else nn.Linear(6, 16)
        self.drop, self.place = nn.Dropout(0.1), nn.Parameter(torch.randn(PLACES, 16))
        self.attend, self.head, self.hide = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 5), hide

    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        h = self.drop(self.embed(x) + self.place)
        h = h + self.attend(h, h, h, key_padding_mask=self.hide(real), need_weights=False)[0]
        return self.head((h * real[:, :, None]).sum(1))


class Single(Joint):
    def forward(self, x: Tensor, real: Tensor) -> Tensor:
        h = self.embed(x).view(len(x), PLACES, 2, 8).transpose(1, 2)
        h = h + F.scaled_dot_product_attention(h, h, h, attn_mask=self.hide(real)[:, None, None])
        return self.head((h.transpose(1, 2).flatten(2) * real[:, :, None]).sum(1))


def program(model: nn.Module, words: bool = False) -> Trial:
    return trial_of(model, padded(words), lambda m, b: F.cross_entropy(m(b[0], b[1]), b[2]))


@pytest.mark.parametrize("words", [False, True])
def test_a_mask_the_wrong_way_round(words: bool) -> None:
    says(ask(RULE, program(Joint(lambda real: real, words), words)), Outcome.FAIL, "mask is inverted", "never the data")
    assert ask(RULE, program(Joint(lambda real: ~real, words), words)).outcome is Outcome.PASS


@pytest.mark.parametrize("least", [-torch.inf, torch.finfo(torch.float32).min])
def test_a_mask_of_numbers(least: float) -> None:
    def hide(seen: Tensor) -> Tensor:
        return torch.zeros(seen.shape).masked_fill(~seen, least)

    assert ask(RULE, program(Joint(hide))).outcome is Outcome.PASS
    assert ask(RULE, program(Joint(lambda real: hide(~real)))).outcome is Outcome.FAIL


@pytest.mark.filterwarnings("ignore")
def test_where_true_means_that_a_key_takes_part() -> None:
    assert ask(RULE, program(Single(lambda real: real))).outcome is Outcome.PASS
    assert ask(RULE, program(Single(lambda real: ~real))).outcome is Outcome.FAIL


def test_a_causal_mask_and_a_mask_that_hides_nothing() -> None:
    def causal(real: Tensor) -> Tensor:
        return torch.ones(PLACES, PLACES).tril().bool().expand(len(real), PLACES, PLACES)[:, 0]

    assert ask(RULE, program(Joint(torch.zeros_like))).outcome is Outcome.SKIP
    assert ask(RULE, program(Single(lambda real: causal(real) | True))).outcome is Outcome.SKIP


def test_a_token_that_all_samples_share_is_no_padding() -> None:
    """Attention to the first place only: what it sees is the same everywhere, and one place proves nothing."""
    first = torch.arange(PLACES) == 0
    assert ask(RULE, program(Joint(lambda real: ~first.expand_as(real), True), True)).outcome is Outcome.PASS


def test_without_attention() -> None:
    assert ask(RULE, trial_of(mlp(), classes(8), cross_entropy)).outcome is Outcome.SKIP
