"""Losses written by hand, mixed targets, and terms with a sign of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, mlp, says, trial_of, trial_on
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.trial.trial import Trial


def series(gap: int) -> TensorDataset:
    walk = torch.randn(400, generator=torch.Generator().manual_seed(2)).cumsum(0)
    past = torch.stack([walk[i : i + 16] for i in range(300)])
    future = torch.stack([walk[i + 16 + gap : i + 20 + gap] for i in range(300)])
    return TensorDataset(past, future)


def absolute(model: nn.Module, batch: Any) -> Tensor:
    return (model(batch[0]) - batch[1]).abs().mean()


def test_a_target_in_the_input_of_a_loss_written_by_hand() -> None:
    late = trial_on(series(-4), model=mlp(16, 4), loss=absolute)
    says(
        ask("target-in-input", late),
        Outcome.WARN,
        "the target `batch[1]` is part of the input `batch[0]`",
        "numbers 12 to 15",
    )
    assert ask("target-in-input", trial_on(series(0), model=mlp(16, 4), loss=absolute)).outcome is not Outcome.WARN


def test_what_the_loss_does_not_use_is_no_target() -> None:
    beside = trial_on(series(-4), model=mlp(16, 4), loss=lambda m, b: m(b[0]).pow(2).mean())
    assert ask("target-in-input", beside).outcome is not Outcome.WARN


def test_a_mask_that_stands_in_the_input_on_purpose() -> None:
    generator = torch.Generator().manual_seed(0)
    mask = (torch.rand(300, 4, generator=generator) < 0.5).float()
    data = TensorDataset(torch.cat([torch.randn(300, 12, generator=generator), mask], 1), mask)
    filled = trial_on(data, model=mlp(16, 4), loss=lambda m, b: ((m(b[0]) - b[0][:, :4]).abs() * b[1]).mean())
    assert ask("target-in-input", filled).outcome is not Outcome.WARN


def mixed(model: nn.Module, batch: Any) -> Tensor:
    x, y = batch
    partner, share = torch.randperm(len(x)), 0.7
    shares = share * F.one_hot(y, 5).float() + (1 - share) * F.one_hot(y[partner], 5).float()
    return F.cross_entropy(model(share * x + (1 - share) * x[partner]), shares)


def test_the_labels_behind_mixed_targets_are_known() -> None:
    assert FirstLoss.measure(trial_of(mlp(), classes(8), mixed), 60.0).targets == ("1",)


def test_numbers_beside_mixed_targets_are_no_labels() -> None:
    batches = [(x, y, y.flip(0)) for x, y in classes(8)]
    assert FirstLoss.measure(trial_of(mlp(), batches, lambda m, b: mixed(m, b[:2])), 60.0).targets == ("1",)


class TwoHeads(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.trunk, self.one, self.other = nn.Linear(8, 16), nn.Linear(16, 3), nn.Linear(16, 2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        hidden = self.trunk(x).relu()
        return self.one(hidden), self.other(hidden)


def of_two_heads(weight: float) -> Trial:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        one, other = model(batch[0])
        return F.cross_entropy(one, batch[1] % 3) + weight * F.cross_entropy(other, batch[1] % 2)

    return trial_of(TwoHeads(), classes(8), loss)


def test_a_head_that_is_trained_to_be_wrong() -> None:
    verdict = ask("loss-maximised", of_two_heads(-0.5))
    says(verdict, Outcome.WARN, "cross_entropy is maximised (derivative -0.5)", "2 parameters serve it alone")
    says(ask("loss-maximised", of_two_heads(0.5)), Outcome.PASS)


class Energy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).pow(2).sum(1)


def contrastive_divergence(model: nn.Module, batch: Any) -> Tensor:
    """Low energy for data, high energy elsewhere: squares have no lower bound, and some train so on purpose."""
    return model(batch[0]).mean() - model(2 * torch.randn_like(batch[0])).mean()


@pytest.mark.parametrize("rate", [3e-3, 3e-2])
def test_an_energy_model_that_squares_its_energies_is_no_flipped_sign(rate: float) -> None:
    model = Energy()
    trial = trial_of(model, classes(8), contrastive_divergence, torch.optim.Adam(model.parameters(), lr=rate))
    says(ask("loss-maximised", trial), Outcome.SKIP, "no loss of torch.nn.functional")


def segmented(channels: Any, target: Any = lambda mask: mask) -> Trial:
    """Masks of pictures, by a network that is given `channels` of both."""
    generator = torch.Generator().manual_seed(3)
    batches = []
    for _ in range(4):
        mask = (torch.rand(16, 9, 9, generator=generator) < 0.4).long()
        picture = mask + torch.randn(16, 9, 9, generator=generator)
        batches.append((torch.stack(channels(picture, mask.float()), 1), target(mask)))
    model = nn.Conv2d(batches[0][0].shape[1], 2, 1)
    return trial_of(model, batches, lambda net, batch: F.cross_entropy(net(batch[0]), batch[1]))


@pytest.mark.parametrize("scale", [1.0, 255.0])
def test_a_target_that_is_a_channel_of_the_input(scale: float) -> None:
    verdict = ask("target-in-input", segmented(lambda picture, mask: [picture, scale * mask - 3]))
    says(verdict, Outcome.WARN, "the target `batch[1]` is channel 1 of the input `batch[0]`", "64 samples")


@pytest.mark.parametrize(
    ("channels", "target"),
    [
        (lambda picture, mask: [picture, picture.abs()], lambda mask: mask),
        (lambda picture, mask: [picture, mask.flip(2)], lambda mask: mask),
        (lambda picture, mask: [mask], lambda mask: mask),
        (lambda picture, mask: [picture, torch.zeros_like(mask)], torch.zeros_like),
    ],
    ids=["of the picture", "another mask", "all of the input", "nothing in any mask"],
)
def test_channels_that_are_not_the_target(channels: Any, target: Any) -> None:
    assert ask("target-in-input", segmented(channels, target)).outcome is not Outcome.WARN


@pytest.mark.parametrize(("leaks", "outcome"), [(True, Outcome.WARN), (False, Outcome.PASS)])
def test_a_time_of_survival_that_is_among_the_inputs(leaks: bool, outcome: Outcome) -> None:
    generator = torch.Generator().manual_seed(0)
    x, end = torch.randn(320, 6, generator=generator), (torch.rand(320, generator=generator) < 0.6).float()
    time = torch.rand(320, generator=generator).log().neg() * x[:, 0].exp()
    inputs = torch.cat([x, (time if leaks else time[torch.randperm(320)]).log()[:, None]], dim=1)

    def partial(model: nn.Module, batch: Any) -> Tensor:
        score, order = model(batch[0])[:, 0], batch[1].argsort(descending=True)
        score, end = score[order], batch[2][order]
        return -((score - score.logcumsumexp(0)) * end).sum() / end.sum().clamp_min(1)

    trial = trial_on(TensorDataset(inputs, time, end), model=mlp(7, 1), loss=partial)
    assert ask("target-in-input", trial).outcome is outcome
