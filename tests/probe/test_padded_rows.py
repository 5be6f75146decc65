"""Lengths and masks that belong to other rows, and orders that are meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

Batch = tuple[Tensor, ...]


def padded(change: Callable[[Tensor, Tensor], Batch], floats: bool = False) -> Trial:
    """Batches of padded sequences beside what `change` makes of them and their lengths."""
    draws = torch.Generator().manual_seed(3)
    batches: list[Any] = []
    for _ in range(3):
        lengths = torch.randperm(10, generator=draws)[:8] + 2
        tokens = torch.randint(1, 9, (8, int(lengths.max())), generator=draws)
        tokens[torch.arange(tokens.shape[1]) >= lengths[:, None]] = 0
        sequences = tokens[..., None] * torch.ones(4) if floats else tokens
        batches.append(change(sequences, lengths))
    model = nn.Linear(1, 1)
    return trial_of(model, batches, lambda m, b: m(b[0].double().mean().float()[None]).mean())


def mask_of(lengths: Tensor) -> Tensor:
    return torch.arange(int(lengths.max())) < lengths[:, None]


FAULTS: list[Callable[[Tensor, Tensor], Batch]] = [
    lambda x, n: (x, n.sort(descending=True).values),
    lambda x, n: (x[n.argsort()], n),
    lambda x, n: (x, mask_of(n.roll(1))),
    lambda x, n: (x, mask_of(n.roll(1)).long(), n.roll(1)),
]
SOUND: list[Callable[[Tensor, Tensor], Batch]] = [
    lambda x, n: (x, n),
    lambda x, n: (x, mask_of(n)),
    lambda x, n: (x[n.argsort(descending=True)], n.sort(descending=True).values),
    lambda x, n: (x, n.roll(1), x.roll(1, 0)),
]
UNJUDGED: list[Callable[[Tensor, Tensor], Batch]] = [
    lambda x, n: (x, n[n.argsort()], n.argsort()),
    lambda x, n: (x, n.roll(1) + 1),
    lambda x, n: (x, torch.arange(len(n)) % 2 + 2),
    lambda x, n: (x, mask_of(n.roll(1)) & (torch.rand(x.shape[:2]) > 0.5)),
]


@pytest.mark.parametrize("floats", [False, True])
@pytest.mark.parametrize("change", FAULTS)
def test_lengths_in_another_order(change: Callable[[Tensor, Tensor], Batch], floats: bool) -> None:
    says(ask("lengths-of-other-rows", padded(change, floats)), Outcome.FAIL, "in another order", "of 8 rows")


@pytest.mark.parametrize("change", SOUND)
def test_lengths_of_their_own_rows(change: Callable[[Tensor, Tensor], Batch]) -> None:
    says(ask("lengths-of-other-rows", padded(change)), Outcome.PASS, "told its own length")


@pytest.mark.parametrize("change", UNJUDGED)
def test_what_is_no_such_length(change: Callable[[Tensor, Tensor], Batch]) -> None:
    assert ask("lengths-of-other-rows", padded(change)).outcome is Outcome.SKIP
