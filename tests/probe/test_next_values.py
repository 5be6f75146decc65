"""Forecasts of a series at every place: whether they see the numbers that they are to predict."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "future-leak"
PLACES = 24


def windows(ahead: int = 1, count: int = 3) -> list[Any]:
    """A series beside a known calendar, as (samples, places, 2), and the series some places later."""
    generator = torch.Generator().manual_seed(4)
    batches = []
    for _ in range(count):
        series = torch.randn(16, PLACES + ahead, generator=generator).cumsum(1)
        calendar = torch.arange(PLACES).remainder(7).expand(16, -1) / 7
        batches.append((torch.stack([series[:, :PLACES], calendar], dim=2), series[:, ahead:]))
    return batches


class Convolved(nn.Module):
    """`left` places of padding before the series and `right` behind; `sides` reads the calendar both ways."""

    def __init__(self, left: int, right: int, calendar_ahead: bool = False, hidden: bool = False) -> None:
        super().__init__()
        self.left, self.right, self.calendar_ahead, self.hidden = left, right, calendar_ahead, hidden
        self.conv, self.head, self.around = nn.Conv1d(2, 8, 3), nn.Linear(8, 1), nn.Conv1d(1, 8, 3, padding=1)

    def forward(self, x: Tensor) -> Any:
        h = F.relu(self.conv(F.pad(x.transpose(1, 2), (self.left, self.right))))
        if self.calendar_ahead:
            h = h + self.around(x[:, :, 1:].transpose(1, 2))
        said = self.head(h.transpose(1, 2)).squeeze(2)
        return (said, self.around(x[:, :, :1].transpose(1, 2))) if self.hidden else said


def forecast(model: nn.Module, batches: list[Any] | None = None) -> Trial:
    def pinball(model: nn.Module, batch: Any) -> Tensor:
        said = model(batch[0])
        gap = batch[1] - (said[0] if isinstance(said, tuple) else said)
        return torch.maximum(0.3 * gap, -0.7 * gap).mean()

    return trial_of(model, batches or windows(), pinball)


def test_a_convolution_that_is_padded_on_both_sides() -> None:
    says(ask(RULE, forecast(Convolved(1, 1))), Outcome.FAIL, "the series itself 1 place later", "at 4 of 4 places")


@pytest.mark.parametrize("model", [Convolved(2, 0), Convolved(2, 0, calendar_ahead=True), Convolved(2, 0, hidden=True)])
def test_forecasts_from_the_past_pass(model: nn.Module) -> None:
    """What is known beforehand may be read ahead, and so may what is no forecast."""
    says(ask(RULE, forecast(model)), Outcome.PASS, "whatever numbers come behind them")


def test_a_series_that_is_two_places_ahead() -> None:
    says(ask(RULE, forecast(Convolved(1, 1), windows(ahead=2))), Outcome.FAIL, "the series itself 2 places later")


@pytest.mark.parametrize("target", [lambda x: x[:, :, 0], lambda x: x[:, :, 0].cumsum(1), lambda x: x[:, :, 0].flip(1)])
def test_what_is_no_forecast_may_look_both_ways(target: Any) -> None:
    """A series to be filled in or smoothed, and one that is told by all of it."""
    batches = [(x, target(x)) for x, _ in windows()]
    assert ask(RULE, forecast(Convolved(1, 1), batches)).outcome is Outcome.SKIP


def test_the_loss_of_torch_shows_the_target_where_the_program_cuts_windows_itself() -> None:
    whole = [torch.randn(16, PLACES + 1).cumsum(1) for _ in range(3)]

    class Both(nn.Module):
        def __init__(self, both: bool) -> None:
            super().__init__()
            self.read, self.head = nn.GRU(1, 6, batch_first=True, bidirectional=both), nn.Linear(12 if both else 6, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.head(self.read(x.unsqueeze(2))[0]).squeeze(2)

    def loss(model: nn.Module, batch: Tensor) -> Tensor:
        return F.smooth_l1_loss(model(batch[:, :-1]), batch[:, 1:])

    says(ask(RULE, trial_of(Both(both=True), whole, loss)), Outcome.FAIL, "sees the numbers it has to predict")
    says(ask(RULE, trial_of(Both(both=False), whole, loss)), Outcome.PASS)


class Masked(nn.Conv2d):
    """Reads what comes before a pixel, in reading order, and the pixel itself only where told."""

    def __init__(self, inward: int, outward: int, itself: bool, behind: bool = False) -> None:
        super().__init__(inward, outward, 3, padding=1)
        mask = torch.ones(3, 3)
        mask[1, 1 + itself :], mask[2:] = float(behind), float(behind)
        self.register_buffer("mask", mask)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight * self.mask, self.bias, padding=1)


def painting(*masks: Masked, wanted: Any = lambda levels: levels) -> Trial:
    levels = torch.randint(4, (3, 16, 6, 6), generator=torch.Generator().manual_seed(1))
    model = nn.Sequential(masks[0], nn.ELU(), *masks[1:], nn.Conv2d(8, 4, 1))

    def loss(net: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(net(batch[0]), batch[1])

    return trial_of(model, [(one[:, None] / 2.0 - 1, wanted(one)) for one in levels], loss)


def test_a_pixel_that_is_to_be_predicted_and_is_seen() -> None:
    told = "at 3 of 3 pixels the output changes when that pixel alone is exchanged"
    says(ask(RULE, painting(Masked(1, 8, itself=True), Masked(8, 8, itself=True))), Outcome.FAIL, told)


def test_pixels_that_are_not_seen_and_pictures_that_are_not_predicted() -> None:
    says(ask(RULE, painting(Masked(1, 8, itself=False), Masked(8, 8, itself=True))), Outcome.PASS, "not on their own")
    for other in (
        painting(Masked(1, 8, itself=True, behind=True)),  # an autoencoder
        painting(Masked(1, 8, itself=True), wanted=lambda levels: (levels > 1).long()),  # a mask of the picture
        painting(Masked(1, 8, itself=True), wanted=lambda levels: levels.roll(-1, 2)),  # the next pixel
    ):
        assert ask(RULE, other).outcome is Outcome.SKIP
