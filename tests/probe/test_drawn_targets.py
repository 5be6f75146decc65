"""Noise that a model is asked to tell: drawn once for its input and the loss, or a second time for the loss alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Function, ask, classes, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "labels-unrelated"


def denoiser(loss: Callable[[Any, Tensor], Tensor], net: nn.Module | None = None) -> Trial:
    model = Function(lambda layers, x: layers["net"](x), net=net or mlp(8, 8))
    return trial_of(model, classes(8), lambda model, batch: loss(model, batch[0]))


def another(model: Any, x: Tensor) -> Tensor:
    noise = torch.randn_like(x)
    return F.mse_loss(model(x + 0.5 * torch.randn_like(x)), noise)


def own(model: Any, x: Tensor) -> Tensor:
    noise = torch.randn_like(x)
    return F.mse_loss(model(x + 0.5 * noise), noise)


def test_noise_that_is_drawn_a_second_time_for_the_loss() -> None:
    verdict = ask(RULE, denoiser(another))
    says(verdict, Outcome.WARN, "noise that the model cannot know", "the same, bit for bit")
    assert verdict.findings[0].location.path.endswith("test_drawn_targets.py")
    says(
        ask(RULE, denoiser(lambda m, x: F.smooth_l1_loss(torch.randn(len(x), 8), m(x)))),
        Outcome.WARN,
        "`smooth_l1_loss`",
    )


def zero_last() -> nn.Module:
    """A last layer that begins with zeros, as those of denoising models do: at first every answer is the same."""
    net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    nn.init.zeros_(net[2].weight)
    nn.init.zeros_(net[2].bias)
    return net


@pytest.mark.parametrize(
    "trial",
    [
        denoiser(own),
        denoiser(own, zero_last()),
        denoiser(lambda m, x: F.mse_loss(m(x), x + 0.1 * torch.randn_like(x))),
        denoiser(lambda m, x: F.mse_loss(m(x + torch.randn_like(x)), x)),
    ],
    ids=["its own", "of a last layer of zeros", "added to a target", "in the input alone"],
)
def test_noise_that_the_model_can_tell_or_need_not(trial: Trial) -> None:
    verdict = ask(RULE, trial)
    assert verdict.outcome is not Outcome.WARN, verdict.summary


def written_for_another(model: Any, x: Tensor) -> Tensor:
    noise = torch.randn_like(x)
    return ((model(x + 0.5 * torch.randn_like(x)) - noise) ** 2).mean()


def written_for_two(model: Any, x: Tensor) -> Tensor:
    noise, other = torch.randn_like(x), torch.randn_like(x)
    return (noise - model(x + 0.5 * other)).abs().mean() + (other - model(x + 0.5 * other)).square().mean()


@pytest.mark.parametrize("loss", [written_for_another, written_for_two])
def test_a_loss_that_is_written_out_and_asks_for_other_noise(loss: Any) -> None:
    says(ask(RULE, denoiser(loss)), Outcome.WARN, "the target of the error that is written out", "cannot know")


def written(model: Any, x: Tensor) -> Tensor:
    noise = torch.randn_like(x)
    return (model(x + 0.5 * noise) - noise).pow(2).mean()


def of_velocity(model: Any, x: Tensor) -> Tensor:
    noise = torch.randn_like(x)
    return (model(0.5 * x + 0.5 * noise) - (x - noise)).square().mean()


def noisy_output(model: Any, x: Tensor) -> Tensor:
    return (model(x) - torch.randn_like(x)).logsumexp(1).mean()


@pytest.mark.parametrize("loss", [written, of_velocity, noisy_output])
def test_a_loss_that_is_written_out_and_asks_for_what_is_there(loss: Any) -> None:
    assert ask(RULE, denoiser(loss)).outcome is not Outcome.WARN
