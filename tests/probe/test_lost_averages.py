"""Averages of weights that a step computes and drops, and those that it keeps."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from probe_programs import ask, says
from test_averaged_copy import COPY, averaged, normed
from torch import nn

from mlcheck.core.outcome import Outcome

Update = Callable[[nn.Module, nn.Module], None]


@torch.no_grad()
def to_a_name(model: nn.Module, ema: nn.Module) -> None:
    for mine, theirs in zip(ema.parameters(), model.parameters()):
        mine = 0.99 * mine + 0.01 * theirs  # type: ignore[assignment]


def out_of_place(model: nn.Module, ema: nn.Module) -> None:
    for mine, theirs in zip(ema.parameters(), model.parameters()):
        mine.data.mul(0.99).add(theirs.data, alpha=0.01)


@torch.no_grad()
def between(model: nn.Module, ema: nn.Module) -> None:
    for mine, theirs in zip(ema.parameters(), model.parameters()):
        torch.lerp(mine, theirs, 0.01)


def in_a_dict(model: nn.Module, ema: nn.Module) -> None:
    own, state = model.state_dict(), ema.state_dict()
    for key in state:
        state[key] = state[key] * 0.9 + own[key] * 0.1


def loaded(model: nn.Module, ema: nn.Module) -> None:
    own, state = model.state_dict(), ema.state_dict()
    ema.load_state_dict({key: state[key] * 0.9 + own[key] * 0.1 for key in state})


@torch.no_grad()
def copied(model: nn.Module, ema: nn.Module) -> None:
    for mine, theirs in zip(ema.parameters(), model.parameters()):
        mine.copy_(mine * 0.9 + theirs * 0.1)


@torch.no_grad()
def compared(model: nn.Module, ema: nn.Module) -> None:
    for mine, theirs in zip(ema.parameters(), model.parameters()):
        (mine - theirs).norm()


@pytest.mark.parametrize("update", [to_a_name, out_of_place, between, in_a_dict])
def test_averages_that_are_dropped(update: Update) -> None:
    says(ask(COPY, averaged(update)), Outcome.WARN, "keeps none of them", "never moves")


@pytest.mark.parametrize("update", [loaded, copied, compared])
def test_averages_that_are_kept_and_copies_that_stay(update: Update) -> None:
    assert "keeps none" not in ask(COPY, averaged(update)).summary


def test_a_dict_of_averages_made_anew() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 5))
    shadow = {name: p.detach().clone() for name, p in model.named_parameters()}

    def renewed(model: nn.Module, shadow: dict[str, torch.Tensor]) -> None:
        for name, p in model.named_parameters():
            shadow[name] = 0.9 * shadow[name] + 0.1 * p.detach()

    assert ask(COPY, averaged(renewed, model, shadow)).outcome is Outcome.PASS


def test_a_frozen_copy_of_a_fresh_model_is_no_fresh_weight() -> None:
    """A target network that is brought up to date now and then."""
    model = normed()
    target = deepcopy(model).requires_grad_(False)
    trial = averaged(lambda model, ema: None, model, target)
    trial.models = {"model": model, "target": target}
    assert ask("frozen-fresh-weights", trial).outcome is not Outcome.WARN
