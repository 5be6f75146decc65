"""The user's loop with steps that do nothing, or that Adam does: whatever the loop gives to `step`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_programs import classes, cross_entropy, mlp, trial_of
from torch import Tensor, nn

from mlcheck.probe.measure.simplified import replaced_by_adam, stilled
from mlcheck.trial.trial import Trial

Given = Callable[[Callable[[], Tensor], list[Tensor]], tuple[tuple[Any, ...], dict[str, Any]]]


class Descent(torch.optim.SGD):
    """Steps along a direction that its user has computed, and says how far it went."""

    def step(self, direction: Any, *, scale: float = 1.0) -> float:  # type: ignore[override]
        super().step(direction if callable(direction) else None)
        return scale


def stepping(given: Given) -> tuple[Trial, list[int]]:
    model = mlp()
    optimizer = Descent(model.parameters(), lr=0.1)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
    called: list[int] = []

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        def closure() -> Tensor:
            called.append(index)
            optimizer.zero_grad()
            loss = cross_entropy(model, batch)
            loss.backward()
            return loss

        loss = closure()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        arguments, named = given(closure, gradients)
        optimizer.step(*arguments, **named)
        plateau.step(loss.detach())
        return {"loss": loss.detach()}

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step)
    trial.schedulers = {"plateau": plateau}
    return trial, called


GIVEN: dict[str, tuple[Given, int]] = {
    "a direction": (lambda _, gradients: ((nn.utils.parameters_to_vector(gradients),), {"scale": 2.0}), 1),
    "a closure": (lambda closure, _: ((closure,), {}), 2),
}


@pytest.mark.parametrize("name", GIVEN)
def test_a_stilled_step_takes_what_the_loop_gives_it_and_calls_closures_alone(name: str) -> None:
    given, calls = GIVEN[name]
    trial, called = stepping(given)
    before = [p.detach().clone() for p in trial.models["model"].parameters()]
    with stilled(trial):
        trial.train_step(next(trial.train_batches()), 0)
    after = list(trial.models["model"].parameters())
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    assert len(called) == calls


@pytest.mark.parametrize("name", GIVEN)
def test_adam_steps_in_the_place_of_an_optimizer_that_is_given_more(name: str) -> None:
    given, calls = GIVEN[name]
    trial, called = stepping(given)
    before = [p.detach().clone() for p in trial.models["model"].parameters()]
    with replaced_by_adam(trial, 1e-3):
        trial.train_step(next(trial.train_batches()), 0)
    after = list(trial.models["model"].parameters())
    assert all(float((a - b).detach().abs().max()) <= 1.001e-3 for a, b in zip(before, after, strict=True))
    assert not torch.equal(before[0], after[0])
    assert len(called) == calls
