"""Evaluations that put other weights into the model: for good, for as long as they last, or until training goes on."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "missing-eval-mode"


def averaged(put_back: str) -> Trial:
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    average: dict[str, Tensor] = copy.deepcopy(model.state_dict())
    kept: dict[str, Tensor] = {}

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        if kept:
            model.load_state_dict(kept)
            kept.clear()
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        optimizer.step()
        for name, value in model.state_dict().items():
            average[name].lerp_(value, 0.1)
        return {"loss": loss.detach()}

    def evaluate(batch: Any) -> dict[str, float]:
        before = copy.deepcopy(model.state_dict())
        model.load_state_dict(average)
        with torch.no_grad():
            found = {"val_loss": float(cross_entropy(model, batch))}
        if put_back == "at once":
            model.load_state_dict(before)
        elif put_back == "in the next step":
            kept.update(before)
        return found

    return trial_of(model, classes(8), cross_entropy, optimizer, step, evaluate)


def test_averaged_weights_that_stay_in_the_model() -> None:
    says(ask(RULE, averaged("never")), Outcome.FAIL, "evaluating the trained model changed", "the next step trains on")


@pytest.mark.parametrize("when", ["at once", "in the next step"])
def test_averaged_weights_that_are_taken_out_again(when: str) -> None:
    assert ask(RULE, averaged(when)).outcome is Outcome.PASS


class Held:
    """A program with a network beside the one that it trains."""

    def __init__(self, other: nn.Module) -> None:
        self.other = other


def beside(move: Callable[[nn.Module, nn.Module], None], taught: bool = True) -> Trial:
    model, other = mlp(), mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        if taught:
            with torch.no_grad():
                advice = other(batch[0])
            loss = loss + (model(batch[0]) - advice).square().mean()
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    @torch.no_grad()
    def evaluate(batch: Any) -> dict[str, float]:
        move(model, other)
        return {"val_loss": float(cross_entropy(model, batch))}

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step, evaluate)
    trial.objects = (Held(other),)
    return trial


def follow(model: nn.Module, other: nn.Module) -> None:
    for slow, fast in zip(other.parameters(), model.parameters(), strict=True):
        slow.lerp_(fast, 0.1)


def replace(model: nn.Module, other: nn.Module) -> None:
    other.load_state_dict(model.state_dict())


def test_a_teacher_that_an_evaluation_moves() -> None:
    says(ask(RULE, beside(follow)), Outcome.FAIL, "evaluating changed `other.0.weight`", "the next training step asks")


@pytest.mark.parametrize(
    ("move", "taught"), [(follow, False), (replace, True), (lambda *_: None, True)], ids=("unasked", "set", "still")
)
def test_what_an_evaluation_may_do_with_a_network_beside(move: Any, taught: bool) -> None:
    assert ask(RULE, beside(move, taught)).outcome is Outcome.PASS
