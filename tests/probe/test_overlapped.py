"""Forecasts of a series whose first places are the end of what the model reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "target-in-input"
LENGTH, HORIZON = 24, 12


class Forecast(nn.Module):
    """A linear layer over time for each column, of the first `read` places."""

    def __init__(self, horizon: int = HORIZON, read: int = LENGTH) -> None:
        super().__init__()
        self.read, self.ahead = read, nn.Linear(read, horizon)

    def forward(self, x: Tensor) -> Tensor:
        return self.ahead(x[:, : self.read].transpose(1, 2)).transpose(1, 2)


def windows(early: int, horizon: int = HORIZON) -> list[Any]:
    """Inputs and targets that begin `early` places before these end."""
    draws = torch.Generator().manual_seed(0)
    series = torch.randn(4, 32, LENGTH + horizon, 3, generator=draws).cumsum(2)
    begin = LENGTH - early
    return [(part[:, :LENGTH], part[:, begin : begin + horizon]) for part in series]


def forecasting(model: nn.Module, batches: list[Any], cut: Callable[[Tensor], Tensor] = lambda y: y) -> Trial:
    return trial_of(model, batches, lambda m, b: F.mse_loss(cut(m(b[0])), cut(b[1])))


@pytest.mark.parametrize("early", [3, 8, 11])
def test_a_target_that_begins_before_its_input_ends(early: int) -> None:
    told = ask(RULE, forecasting(Forecast(), windows(early)))
    says(told, Outcome.WARN, f"the first {early} of 12 places", f"are the last {early} of the input's 24", "to copy")


def test_a_target_as_long_as_its_input() -> None:
    told = ask(RULE, forecasting(Forecast(LENGTH), windows(12, LENGTH)))
    says(told, Outcome.WARN, "the first 12 of 24 places")


SOUND: dict[str, Trial] = {
    "begins where the input ends": forecasting(Forecast(), windows(0)),
    "two places": forecasting(Forecast(), windows(2)),
    "not read by the model": forecasting(Forecast(read=LENGTH - 8), windows(8)),
    "the input itself": forecasting(Forecast(LENGTH), [(x, x) for x, _ in windows(0)]),
    "a series that stands still": forecasting(
        Forecast(), [(torch.ones(32, LENGTH, 3), torch.ones(32, HORIZON, 3)) for _ in range(4)]
    ),
}


@pytest.mark.parametrize("name", SOUND)
def test_targets_that_are_not_given_away(name: str) -> None:
    assert ask(RULE, SOUND[name]).outcome is not Outcome.WARN


@pytest.mark.parametrize("later", [1, 6, 12])
def test_what_comes_later_at_every_place_is_for_a_causal_model(later: int) -> None:
    batches = [(x[:, :-later], x[:, later:]) for x, _ in windows(0)]

    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.GRU(3, 8, batch_first=True), nn.Linear(8, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.rnn(x)[0])

    assert ask(RULE, forecasting(Recurrent(), batches)).outcome is not Outcome.WARN
