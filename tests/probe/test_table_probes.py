"""Probes of the columns of a table and of its labels: one fault each, and what looks like it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, says, trial_of, trial_on
from sklearn.datasets import load_digits
from table_programs import classified, draws, numbers, rare, regressed
from torch import Tensor, nn
from torch.utils.data import TensorDataset, WeightedRandomSampler

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def test_a_class_that_most_batches_lack() -> None:
    verdict = ask("classes-imbalanced", classified(numbers(2000), rare(0.02)))
    says(verdict, Outcome.WARN, "of the batches of 32 have no sample of class 1", "neither the sampler nor the loss")
    assert verdict.numbers["rarest"] == pytest.approx(0.02, abs=0.01)


def sampled(y: Tensor) -> WeightedRandomSampler:
    return WeightedRandomSampler((1 / torch.bincount(y))[y].tolist(), len(y))


def focal(model: nn.Module, batch: Any) -> Tensor:
    each = F.cross_entropy(model(batch[0]), batch[1], reduction="none")
    return ((1 - (-each).exp()) ** 2 * each).mean()


def binary(model: nn.Module, batch: Any) -> Tensor:
    return F.binary_cross_entropy_with_logits(model(batch[0])[:, 0], batch[1].float(), pos_weight=torch.tensor(40.0))


@pytest.mark.parametrize(
    "trial",
    [
        lambda: classified(numbers(2000), rare(0.02), sampler=sampled(rare(0.02)), shuffle=False),
        lambda: classified(numbers(2000), rare(0.02), weight=torch.tensor([1.0, 49.0])),
        lambda: classified(numbers(2000), rare(0.02), loss=focal),
        lambda: classified(numbers(2000), rare(0.02), loss=binary),
        lambda: classified(numbers(2000), rare(0.2)),
        lambda: classified(numbers(4000), torch.randint(1000, (4000,), generator=draws())),
        lambda: classified(numbers(300), torch.arange(300) % 150),
    ],
    ids=["sampler", "class weights", "focal", "pos_weight", "a fifth", "a thousand equal classes", "few a class"],
)
def test_imbalance_that_is_handled_or_chance(trial: Any) -> None:
    assert ask("classes-imbalanced", trial()).outcome is Outcome.PASS


def mostly_negative(model: nn.Module, batch: Any) -> Tensor:
    return F.binary_cross_entropy_with_logits(model(batch[0])[:, 0], batch[1].float(), pos_weight=torch.tensor(0.02))


@pytest.mark.parametrize(
    "trial",
    [
        lambda: classified(numbers(2000), rare(0.02), weight=torch.tensor([0.98, 0.02])),
        lambda: classified(numbers(2000), rare(0.02), loss=mostly_negative),
    ],
    ids=["frequencies for weights", "pos_weight"],
)
def test_weights_that_make_a_rare_class_rarer(trial: Any) -> None:
    says(ask("classes-imbalanced", trial()), Outcome.WARN, "times as much as one of class 1", "rarer still")


@pytest.mark.parametrize(("power", "worse"), [(1.0, True), (-0.5, False)])
def test_a_sampler_that_makes_a_rare_class_rarer(power: float, worse: bool) -> None:
    """Shares for weights; and one over the root of the share, which helps a little."""
    y = rare(0.1 if worse else 0.01)
    sampler = WeightedRandomSampler((torch.bincount(y).float() ** power)[y].tolist(), len(y))
    verdict = ask("classes-imbalanced", classified(numbers(2000), y, sampler=sampler, shuffle=False))
    assert ("the sampler's weights make the rare class rarer still" in verdict.summary) is worse, verdict
    assert verdict.outcome is Outcome.WARN or not worse


def test_a_rare_class_that_is_left_out_counts_alike_or_less_on_purpose() -> None:
    for weight in ([1.0, 0.0], [1.0, 0.9], [1.0, 0.2]):
        trial = classified(numbers(2000), rare(0.02), weight=torch.tensor(weight))
        assert ask("classes-imbalanced", trial).outcome is Outcome.PASS


def test_one_label_for_all() -> None:
    says(ask("labels-constant", classified(numbers(), torch.zeros(600).long())), Outcome.FAIL, "is 0 in all of 600")
    says(ask("labels-constant", regressed(numbers(), torch.full((600,), 0.3))), Outcome.FAIL, "nothing to learn")


def levels(y: Tensor) -> Tensor:
    """The cumulative levels of an ordinal regression."""
    return (y[:, None] > torch.arange(3)).float()


@pytest.mark.parametrize(("top", "outcome"), [(1, Outcome.WARN), (4, Outcome.SKIP)])
def test_constant_labels_that_a_loss_gets_in_another_form(top: int, outcome: Outcome) -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.binary_cross_entropy_with_logits(model(batch[0]), levels(batch[1]))

    y = torch.randint(top, (600,), generator=draws(2))
    verdict = ask("labels-constant", trial_on(TensorDataset(numbers(), y), None, mlp(8, 3), loss))
    assert verdict.outcome is outcome, verdict.summary


def test_an_adversary_and_a_label_that_nobody_reads() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        real, other = model(batch[0])[:, 0], model(batch[0].flip(1))[:, 0]
        ones = F.binary_cross_entropy_with_logits(real, torch.ones_like(real))
        return ones + F.binary_cross_entropy_with_logits(other, torch.zeros_like(other))

    y = torch.zeros(600).long()
    assert ask("labels-constant", trial_on(TensorDataset(numbers(), y), None, mlp(8, 1), loss)).outcome is Outcome.PASS


def test_one_constant_target_of_three() -> None:
    x = numbers()
    y = torch.stack([x[:, 0], torch.zeros(600), x[:, 1] ** 2], dim=1)
    trial = trial_on(TensorDataset(x, y), None, mlp(8, 3), lambda m, b: F.mse_loss(m(b[0]), b[1]))
    says(ask("labels-constant", trial), Outcome.WARN, "column 1 of the targets `batch[1]` never varies")


def test_whole_numbers_that_are_measured_and_never_vary() -> None:
    x = numbers()
    y = torch.stack([x[:, 0].round(), torch.zeros(600)], dim=1).abs().clamp(max=1)

    def trial(loss: Any) -> Trial:
        return trial_on(TensorDataset(x, y), None, mlp(8, 2), lambda m, b: loss(m(b[0]), b[1]))

    said = "column 1 of the targets `batch[1]` never varies"
    says(ask("labels-constant", trial(F.smooth_l1_loss)), Outcome.WARN, said)
    assert ask("labels-constant", trial(F.binary_cross_entropy_with_logits)).outcome is Outcome.PASS


@pytest.mark.parametrize(("still", "outcome"), [(4, Outcome.PASS), (20, Outcome.WARN)])
def test_pictures_as_targets_have_still_corners(still: int, outcome: Outcome) -> None:
    y = numbers(columns=32)
    y[:, :still] = -1.0
    trial = trial_on(TensorDataset(numbers(), y), None, mlp(8, 32), lambda m, b: F.mse_loss(m(b[0]), b[1]))
    assert ask("labels-constant", trial).outcome is outcome


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


def leaking(kind: str) -> Trial:
    x, y = numbers(), torch.randint(4, (600,), generator=draws(2))
    if kind == "regression":
        target = x[:, 0] * x[:, 1] + 0.1 * numbers(seed=3)[:, 0]
        return regressed(torch.cat([x, 3 * target[:, None] - 7], dim=1), target)
    seldom = torch.where(torch.arange(600) % 50 == 0, 4.0 * torch.rand(600, generator=draws(6)), y.float())
    leak = {
        "coded": y.float() / 3,
        "nearly": y + 0.01 * numbers(seed=4)[:, 0],
        "but for a few": seldom + 0.01 * numbers(seed=4)[:, 0],
    }[kind]
    return classified(torch.cat([x, leak[:, None]], dim=1), y)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("coded", "the input `batch[0][:, 8]` has one value for each class"),
        ("nearly", "the input `batch[0][:, 8]` alone gives 100 % of the labels"),
        ("but for a few", "the input `batch[0][:, 8]` alone gives 9"),
        ("regression", "the input `batch[0][:, 8]` is the target `batch[1]` itself"),
    ],
)
def test_a_column_that_is_the_target(kind: str, said: str) -> None:
    says(ask("target-in-input", leaking(kind)), Outcome.WARN, said)


@pytest.mark.parametrize(("noise", "outcome"), [(0.05, Outcome.WARN), (0.6, Outcome.PASS)])
def test_a_column_that_gives_a_rare_class_away(noise: float, outcome: Outcome) -> None:
    x, y = torch.randn(2000, 8, generator=draws(1)), (torch.rand(2000, generator=draws(2)) < 0.025).long()
    x[y == 1, :3] += 1.8
    x[:, 5] = y + noise * x[:, 5]
    verdict = ask("target-in-input", classified(x, y))
    assert verdict.outcome is outcome, verdict.summary
    assert ("the mean over classes, as one is rare" in verdict.summary) is (outcome is Outcome.WARN)


def test_a_pixel_that_is_the_label() -> None:
    x, y = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
    pictures = x.float().reshape(-1, 1, 8, 8) / 16
    pictures[:, 0, 0, 0] = y / 9
    says(
        ask("target-in-input", classified(pictures, y)), Outcome.WARN, "the input `batch[0][:, 0, 0, 0]` has one value"
    )


@pytest.mark.parametrize("shape", [(1, 64), (64, 1), (1, 8, 32)])
def test_a_line_of_a_spectrum_that_is_the_class_is_what_there_is_to_see(shape: tuple[int, ...]) -> None:
    x, y = numbers(columns=math.prod(shape)), torch.randint(2, (600,), generator=draws(2))
    x[:, 20] += 12 * y
    assert ask("target-in-input", classified(x.reshape(-1, *shape), y)).outcome is Outcome.PASS
    x[:, 20] = y
    says(ask("target-in-input", classified(x.reshape(-1, *shape), y)), Outcome.WARN, "one value for each class")


@pytest.mark.parametrize("columns", ["all", "but one"])
def test_columns_that_are_the_label_one_hot(columns: str) -> None:
    x, y = numbers(), torch.randint(4, (600,), generator=draws(2))
    hot = F.one_hot(y, 4).float()[:, : 4 if columns == "all" else 3] * 2 - 1
    said = "`batch[0][:, 8]`, `batch[0][:, 9]`, `batch[0][:, 10]`"
    says(ask("target-in-input", classified(torch.cat([x, hot], dim=1), y)), Outcome.WARN, said, "one-hot")
    hot[::50] = hot[::50].roll(1, 1)
    assert "one-hot" not in ask("target-in-input", classified(torch.cat([x, hot], dim=1), y)).summary
    group = F.one_hot(y // 2, 2).float()
    assert ask("target-in-input", classified(torch.cat([x, group], dim=1), y)).outcome is Outcome.PASS


def test_nodes_of_a_graph_whose_label_is_among_their_features() -> None:
    generator = draws(1)
    y = torch.arange(120) // 40  # in order, as nodes often are
    x, near = torch.randn(120, 6, generator=generator), (y[:, None] == y) * torch.rand(120, 120, generator=generator)
    seen = torch.arange(120) % 2 == 0

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy((batch["near"] @ model(batch["x"]))[batch["mask"]], batch["y"][batch["mask"]])

    def program(x: Tensor) -> Trial:
        return trial_of(mlp(x.shape[1], 3), [{"x": x, "near": near, "y": y, "mask": seen}], loss)

    leaking = torch.cat([x, F.one_hot(y, 3)], dim=1)
    says(ask("target-in-input", program(leaking)), Outcome.WARN, "`x[:, 6]`, `x[:, 7]`, `x[:, 8]`", "one-hot")
    for rule in ("target-in-input", "labels-constant", "training-data-not-shuffled", "baseline-not-beaten"):
        assert ask(rule, program(x)).outcome not in (Outcome.WARN, Outcome.FAIL), rule


@pytest.mark.parametrize(
    ("kind", "outcome"), [("apart", Outcome.PASS), ("shared", Outcome.FAIL), ("ids", Outcome.FAIL)]
)
def test_nodes_of_a_graph_that_are_in_both_splits(kind: str, outcome: Outcome) -> None:
    x, y = torch.randn(120, 6, generator=draws(1)), torch.randint(3, (120,), generator=draws(2))
    seen = torch.rand(120, generator=draws(3)) < 0.5
    others = ~seen if kind == "apart" else torch.rand(120, generator=draws(4)) < 0.5
    if kind == "ids":
        seen, others = seen.nonzero()[:, 0], others.nonzero()[:, 0]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch["x"])[batch["pick"]], batch["y"][batch["pick"]])

    trial = trial_of(mlp(6, 3), [{"x": x, "y": y, "pick": seen}], loss)
    trial.validation_batches = lambda: iter([{"x": x, "y": y, "pick": others}])
    verdict = ask("splits-overlap", trial)
    assert verdict.outcome is outcome, verdict
    assert "`pick` picks for validation" in verdict.summary
