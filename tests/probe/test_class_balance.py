"""Probes of the labels of a table: how often each occurs, and whether they vary at all."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, says, trial_on
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
        lambda: classified(numbers(2000), rare(0.2), weight=torch.bincount(rare(0.2)) / 2000),
    ],
    ids=["frequencies for weights", "pos_weight", "a fifth"],
)
def test_weights_that_make_a_rare_class_rarer(trial: Any) -> None:
    says(ask("classes-imbalanced", trial()), Outcome.WARN, "times as much as one of class 1", "rarer still")


def test_weights_that_favour_a_class_that_is_not_rare() -> None:
    trial = classified(numbers(2000), rare(0.2), weight=torch.tensor([3.0, 1.0]))
    assert ask("classes-imbalanced", trial).outcome is Outcome.PASS


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
