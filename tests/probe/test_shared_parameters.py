"""Parameters that two optimizers hold: moved twice along one gradient, or once along each of two."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "missing-zero-grad"
Step = Callable[[nn.Module, Any, Optimizer, Optimizer], None]


def two(step: Step, shared: bool = True) -> Trial:
    model = mlp()
    body, head = model[:4], model[4]
    first = Adam((model if shared else body).parameters(), lr=1e-3)
    second = SGD(head.parameters(), lr=0.01, momentum=0.9)

    def stepped(batch: Any, _: int) -> dict[str, Tensor]:
        step(model, batch, first, second)
        return {}

    trial = trial_of(model, classes(8), cross_entropy, first, stepped)
    trial.optimizers = {"first": first, "second": second}
    return trial


def one_after_the_other(model: nn.Module, batch: Any, first: Optimizer, second: Optimizer) -> None:
    first.zero_grad()
    second.zero_grad()
    cross_entropy(model, batch).backward()
    first.step()
    second.step()


def by_losses_of_their_own(model: nn.Module, batch: Any, first: Optimizer, second: Optimizer) -> None:
    for optimizer in (first, second):
        first.zero_grad()
        cross_entropy(model, batch).backward()
        optimizer.step()


def by_gradients_set_by_hand(model: nn.Module, batch: Any, first: Optimizer, second: Optimizer) -> None:
    first.zero_grad()
    cross_entropy(model, batch).backward()
    first.step()
    for parameter in model.parameters():
        parameter.grad = -0.1 * parameter.detach()
    second.step()


def test_one_gradient_that_two_optimizers_apply() -> None:
    said = "`4.weight`, `4.bias` are moved twice along each gradient"
    says(ask(RULE, two(one_after_the_other)), Outcome.WARN, said, "`first` and `second` hold them both")


@pytest.mark.parametrize("step", [by_losses_of_their_own, by_gradients_set_by_hand])
def test_gradients_of_their_own(step: Step) -> None:
    assert ask(RULE, two(step)).outcome is Outcome.PASS


def test_parameters_of_their_own() -> None:
    assert ask(RULE, two(one_after_the_other, shared=False)).outcome is Outcome.PASS
