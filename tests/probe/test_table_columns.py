"""Probes of the columns of a table: dead ones, readings far out, codes for what is missing."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, says, trial_on
from table_programs import classified, draws, numbers, rare, regressed
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def test_a_feature_that_died() -> None:
    x = numbers()
    x[:, 3] = 0.0
    says(
        ask("constant-feature", classified(x, rare(0.5, 600))),
        Outcome.WARN,
        "column 3 of `batch[0]` is 0 in all of 600 rows",
    )


@pytest.mark.parametrize(("constant", "outcome"), [(0.37, Outcome.WARN), (0.0, Outcome.PASS), (1.0, Outcome.PASS)])
def test_a_feature_that_died_beside_a_yes_or_no(constant: float, outcome: Outcome) -> None:
    x = numbers()
    x[:, 0] = (x[:, 0] > 0.5).float()
    x[:, 3] = constant
    assert ask("constant-feature", classified(x, rare(0.5, 600))).outcome is outcome


def test_a_feature_alive_in_validation_only() -> None:
    x = (numbers() > 2).float()
    x[:, 2] = 0.0
    held_out = TensorDataset((numbers(seed=2) > 0).float(), rare(0.5, 600))
    verdict = ask("constant-feature", classified(x, rare(0.5, 600), validation=held_out))
    says(verdict, Outcome.WARN, "training rows, and varies in validation")


def test_inputs_that_are_all_the_same() -> None:
    trial = classified(torch.ones(600, 8) * numbers(1), rare(0.5, 600))
    says(ask("constant-feature", trial), Outcome.WARN, "`batch[0]` is the same in every sample")


@pytest.mark.parametrize(("same", "outcome"), [(200, Outcome.WARN), (199, Outcome.PASS)])
def test_pictures_that_are_all_the_same(same: int, outcome: Outcome) -> None:
    pictures = torch.rand(200, 1, 8, 8, generator=draws())
    pictures[:same] = pictures[0]
    assert ask("constant-feature", classified(pictures, rare(0.5, 200))).outcome in (outcome, Outcome.SKIP)
    if outcome is Outcome.WARN:
        says(ask("constant-feature", classified(pictures, rare(0.5, 200))), outcome, "is the same in each of 200")


def test_a_picture_with_a_dead_channel() -> None:
    pictures = torch.rand(200, 3, 8, 8, generator=draws())
    pictures[:, 2] = 0
    says(ask("constant-feature", classified(pictures, rare(0.5, 200))), Outcome.WARN, "channel 2 of `batch[0]` is 0")


class Recurrent(nn.Module):
    def __init__(self, features: int) -> None:
        super().__init__()
        self.gru, self.out = nn.GRU(features, 8, batch_first=True), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.gru(x)[0][:, -1])


def convolving(channels: int) -> nn.Module:
    return nn.Sequential(nn.Conv1d(channels, 8, 3), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 2))


def series(x: Tensor, model: nn.Module) -> Trial:
    return trial_on(TensorDataset(x, rare(0.5, len(x))), None, model, lambda m, b: F.cross_entropy(m(b[0]), b[1]))


def test_the_last_feature_of_a_series_is_no_padding_where_a_layer_takes_it_for_a_feature() -> None:
    x = torch.randn(200, 12, 3, generator=draws())
    x[..., 2] = 0.25
    says(ask("constant-feature", series(x, Recurrent(3))), Outcome.WARN, "feature 2 of `batch[0]` is 0.25 in all of")
    x[..., 2] = torch.randn(200, 12, generator=draws(2))
    says(ask("constant-feature", series(x, Recurrent(3))), Outcome.PASS)


def test_a_signal_has_channels_and_may_be_padded_at_its_end() -> None:
    x = torch.randn(200, 3, 40, generator=draws())
    x[..., 36:] = 0.0
    says(ask("constant-feature", series(x, convolving(3))), Outcome.PASS, "3 of 3 channels")
    x[:, 1] = 0.0
    says(ask("constant-feature", series(x, convolving(3))), Outcome.WARN, "channel 1 of `batch[0]` is 0 in all of")
    alike = torch.randn(1, 1, 40, generator=draws()).expand(200, 1, 40).clone()
    says(ask("constant-feature", series(alike, convolving(1))), Outcome.WARN, "is the same in every sample")


def test_a_reading_of_a_billion_and_a_code_for_missing_ones() -> None:
    x = numbers()
    x[17, 2] = 1e8
    says(ask("outlier-values", classified(x, rare(0.5, 600))), Outcome.WARN, "column 2 of `batch[0]` holds 1e+08")
    x = numbers()
    x[::200, 5] = -999.0
    says(ask("outlier-values", classified(x, rare(0.5, 600))), Outcome.WARN, "a code for a missing value")


def test_a_reading_of_a_billion_that_no_training_batch_held() -> None:
    held_out = numbers(seed=5)
    trial = classified(numbers(), rare(0.5, 600))
    trial.validation_batches = lambda: iter([(held_out, rare(0.5, 600))])
    says(ask("outlier-values", trial), Outcome.PASS)
    held_out[11, 3] = 4e7
    says(ask("outlier-values", trial), Outcome.WARN, "in validation column 3 of `batch[0]` holds 4e+07")


def test_a_sentinel_among_the_targets() -> None:
    target = numbers(seed=3)[:, 0]
    says(ask("outlier-values", regressed(numbers(), target)), Outcome.PASS)
    target[::97] = 99999.0
    says(ask("outlier-values", regressed(numbers(), target)), Outcome.WARN, "`batch[1]`", "99999", "missing value")


def test_a_code_that_stands_in_many_rows() -> None:
    x = numbers()
    x[::20, 5] = -50_001.5
    verdict = ask("outlier-values", classified(x, rare(0.5, 600)))
    says(verdict, Outcome.WARN, "column 5 of `batch[0]` is -50001.5 in 5 % of 600 values", "a code for a missing value")


def test_capped_incomes_and_rare_flags_are_no_codes() -> None:
    x = numbers()
    x[:, 3] = (6 * x[:, 3]).exp().clamp_max(1000.0)
    x[:, 4] = (torch.arange(600) % 50 == 0).float()
    says(ask("outlier-values", classified(x, rare(0.5, 600))), Outcome.PASS)
