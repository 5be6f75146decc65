"""Pictures whose numbers stand in another order, and batch norms that see one sample at a time."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.pixel_order import pixel_order
from mlcheck.trial.trial import Trial


def pictures(channels: int = 3, samples: int = 32, size: int = 16) -> Tensor:
    """Smooth blobs, another in each channel, with some noise: (samples, channels, size, size)."""
    generator = torch.Generator().manual_seed(3)
    coarse = torch.randn(samples, channels, 4, 4, generator=generator)
    smooth = F.interpolate(coarse, (size, size), mode="bilinear")
    return smooth + 0.1 * torch.randn(samples, channels, size, size, generator=generator)


def seen_by_a_convolution(images: Tensor) -> Trial:
    labels = torch.arange(len(images)) % 5
    model = nn.Sequential(
        nn.Conv2d(images.shape[1], 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5)
    )
    return trial_of(model, [(images, labels)] * 3, cross_entropy)


@pytest.mark.parametrize("channels", [2, 3, 4])
def test_channels_last_that_were_reshaped(channels: int) -> None:
    taken = pictures(channels).movedim(1, -1)
    verdict = ask("view-as-transpose", seen_by_a_convolution(taken.reshape(32, channels, 16, 16)))
    assert verdict.outcome is Outcome.WARN, verdict.reason or verdict.summary
    assert "the pictures that enter `0 (Conv2d)` are scrambled" in verdict.findings[0].message
    assert ask("view-as-transpose", seen_by_a_convolution(taken.movedim(-1, 1))).outcome is Outcome.PASS


def noisy(size: int = 24) -> Tensor:
    """A disc in three channels, and more noise than disc."""
    draws = torch.Generator().manual_seed(4)
    place, radius = (
        torch.rand(32, 2, 1, 1, generator=draws) * (size - 8) + 4,
        3 + 3 * torch.rand(32, 1, 1, generator=draws),
    )
    axis = torch.arange(size)
    inside = (axis[:, None] - place[:, 0]).square() + (axis - place[:, 1]).square() < radius.square()
    return inside[:, None] * 1.2 + 0.5 * torch.randn(32, 3, size, size, generator=draws)


@pytest.mark.parametrize("make", [pictures, noisy])
@pytest.mark.parametrize("flip", [(), (-1,), (-2,), (-2, -1)])
def test_a_reshape_shows_through_noise_and_through_a_flip_behind_it(make: Any, flip: tuple[int, ...]) -> None:
    images = make()
    wrong = images.movedim(1, -1).reshape(images.shape).flip(flip)
    assert ask("view-as-transpose", seen_by_a_convolution(wrong)).outcome is Outcome.WARN
    assert ask("view-as-transpose", seen_by_a_convolution(images.flip(flip))).outcome is Outcome.PASS


def grey() -> Tensor:
    return pictures(1).expand(-1, 3, -1, -1).contiguous()


def noise() -> Tensor:
    return torch.randn(32, 3, 16, 16, generator=torch.Generator().manual_seed(5))


def small_noise() -> Tensor:
    return torch.randn(32, 3, 8, 8, generator=torch.Generator().manual_seed(6))


def one_hot() -> Tensor:
    return F.one_hot(pictures(1)[:, 0].abs().long().clamp(max=2), 3).movedim(-1, 1).float()


def spectra() -> Tensor:
    """Rows that vary fast along time and slowly along frequency."""
    time = torch.randn(32, 2, 1, 16, generator=torch.Generator().manual_seed(6))
    return time * torch.linspace(1, 2, 16)[:, None]


@pytest.mark.parametrize("images", [grey, noise, one_hot, spectra, small_noise])
def test_pictures_that_are_not_smooth_or_have_equal_channels_pass(images: Any) -> None:
    assert ask("view-as-transpose", seen_by_a_convolution(images())).outcome is Outcome.PASS


def test_what_has_one_channel_or_few_samples_is_not_judged() -> None:
    assert ask("view-as-transpose", seen_by_a_convolution(pictures(1))).outcome is Outcome.SKIP
    assert pixel_order([pictures(samples=8)]) is None
    assert pixel_order([torch.zeros(32, 3, 16, 16)]) is None


def normed(norm: nn.Module, size: int) -> Trial:
    model = nn.Sequential(nn.Linear(8, 16), nn.Unflatten(1, (4, 4)), norm, nn.Flatten(), nn.ReLU(), nn.Linear(16, 5))
    return trial_of(model, classes(8, size=size), cross_entropy)


def test_batch_norm_over_one_sample() -> None:
    verdict = ask("batch-norm-batch-of-one", normed(nn.BatchNorm1d(4), 1))
    assert verdict.outcome is Outcome.WARN, verdict.reason or verdict.summary
    assert "`2 (BatchNorm1d)` saw one sample at a time in 3 training steps" in verdict.findings[0].message


@pytest.mark.parametrize(
    ("norm", "size", "outcome"),
    [
        (nn.BatchNorm1d(4), 2, Outcome.PASS),
        (nn.BatchNorm1d(4, track_running_stats=False), 1, Outcome.SKIP),
        (nn.GroupNorm(2, 4), 1, Outcome.SKIP),
    ],
)
def test_norms_that_fit_their_batch(norm: nn.Module, size: int, outcome: Outcome) -> None:
    assert ask("batch-norm-batch-of-one", normed(norm, size)).outcome is outcome


def test_a_frozen_batch_norm_may_see_one_sample() -> None:
    trial = normed(nn.BatchNorm1d(4), 1)
    model, optimizer = trial.models["model"], trial.optimizers["optimizer"]

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        model.train()
        model.get_submodule("2").eval()
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    trial.train_step = step
    assert ask("batch-norm-batch-of-one", trial).outcome is Outcome.SKIP


@pytest.mark.parametrize(
    ("norm", "shape", "outcome"),
    [
        (nn.GroupNorm(16, 16), (16, 1), Outcome.WARN),
        (nn.LayerNorm(1), (16, 1), Outcome.WARN),
        (nn.GroupNorm(4, 16), (16, 1), Outcome.SKIP),
        (nn.GroupNorm(4, 4), (4, 4), Outcome.SKIP),
        (nn.LayerNorm(16), (16,), Outcome.SKIP),
    ],
)
def test_norms_of_one_number_each(norm: nn.Module, shape: tuple[int, ...], outcome: Outcome) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.Unflatten(1, shape), norm, nn.Flatten(), nn.Linear(16, 5))
    verdict = ask("batch-norm-batch-of-one", trial_of(model, classes(8), cross_entropy))
    assert verdict.outcome is outcome, verdict.reason or verdict.summary
    if outcome is Outcome.WARN:
        assert f"`2 ({type(norm).__name__})` normalises every number by itself" in verdict.summary
