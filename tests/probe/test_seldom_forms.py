"""Models in forms that are seldom met."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from probe_programs import ask, classes, cross_entropy, mlp, trial_of
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training.update_watch import _norms


class Ensemble(nn.Module):
    """Two perceptrons in one call of vmap."""

    def __init__(self) -> None:
        super().__init__()
        stacked, _ = stack_module_state([mlp(), mlp()])  # type: ignore[no-untyped-call]
        self.names = list(stacked)
        self.weights = nn.ParameterList(nn.Parameter(stacked[name].detach()) for name in self.names)
        self.shape = [mlp().to("meta")]

    def forward(self, x: Tensor) -> Tensor:
        stacked = dict(zip(self.names, self.weights, strict=True))
        mean: Tensor = torch.vmap(lambda own: functional_call(self.shape[0], own, (x,)))(stacked).mean(0)
        return mean


def test_an_ensemble_within_vmap_is_evaluated_twice_alike() -> None:
    model, batches = Ensemble(), classes(8)

    def evaluate(batch: Any) -> dict[str, Tensor]:
        model.eval()
        with torch.no_grad():
            return {"loss": cross_entropy(model, batch)}

    trial = trial_of(model, batches, cross_entropy)
    trial = replace(trial, evaluate_step=evaluate, validation_batches=lambda: iter(batches))
    for rule in ("missing-eval-mode", "random-evaluation"):
        assert ask(rule, trial).outcome is not Outcome.ERROR


def test_gradients_of_complex_weights_have_a_norm() -> None:
    weight, other = nn.Parameter(torch.zeros(2, dtype=torch.complex64)), nn.Parameter(torch.zeros(2))
    weight.grad, other.grad = torch.tensor([3 + 4j, 0]), torch.tensor([0.0, 2.0])
    assert _norms([weight, other]) == [5.0, 2.0]
