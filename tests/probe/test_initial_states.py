"""What recurrent layers begin with in evaluation."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "initial-state-random"


class Reader(nn.Module):
    def __init__(self, begin: Any, kind: Any = nn.GRU) -> None:
        super().__init__()
        self.rnn, self.head, self.begin = kind(3, 8, batch_first=True), nn.Linear(8, 5), begin
        self.start, self.summary = nn.Parameter(torch.randn(1, 1, 8)), nn.Linear(3, 8)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(x, self.begin(self, x))[0][:, -1])


def reading(begin: Any, kind: Any = nn.GRU) -> Trial:
    return trial_of(Reader(begin, kind), classes(6, 3), cross_entropy)


def drawn(_: Any, x: Tensor) -> Tensor:
    return torch.randn(1, len(x), 8)


def test_a_state_drawn_anew() -> None:
    says(ask(RULE, reading(drawn)), Outcome.WARN, "`rnn (GRU)` begins with a state drawn at random, in evaluation too")
    both = reading(lambda m, x: (drawn(m, x), drawn(m, x)), nn.LSTM)
    says(ask(RULE, both), Outcome.WARN, "`rnn (LSTM)`")


BEGINNINGS: dict[str, Any] = {
    "zeros": lambda m, x: torch.zeros(1, len(x), 8),
    "learnt": lambda m, x: m.start.expand(-1, len(x), -1).contiguous(),
    "drawn in training alone": lambda m, x: drawn(m, x) if m.training else torch.zeros(1, len(x), 8),
    "sampled about what was read": lambda m, x: (m.summary(x.mean(1)) + torch.randn(len(x), 8))[None],
}


@pytest.mark.parametrize("name", BEGINNINGS)
def test_sound_beginnings(name: str) -> None:
    assert ask(RULE, reading(BEGINNINGS[name])).outcome is Outcome.PASS


def test_no_state_is_given() -> None:
    assert ask(RULE, reading(lambda m, x: None)).outcome is Outcome.SKIP


class Writer(nn.Module):
    """A generator: what it begins with is its noise, and what it reads says nothing of the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn, self.head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.rnn(torch.zeros_like(x), torch.randn(1, len(x), 8))[0][:, -1])


def test_the_noise_of_a_generator() -> None:
    assert ask(RULE, trial_of(Writer(), classes(6, 3), cross_entropy)).outcome is Outcome.PASS
