"""Models in forms that are seldom met."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
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


class Langevin(torch.optim.Optimizer):
    """Noise and steps on a scale that running squares of the decayed gradient set, as RMSprop's."""

    def __init__(self, weights: Any, lr: float, weight_decay: float) -> None:
        super().__init__(weights, {"lr": lr, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for weight in group["params"]:
                slope = weight.grad + group["weight_decay"] * weight
                squares = self.state[weight].setdefault("squares", torch.zeros_like(weight))
                squares.mul_(0.99).addcmul_(slope, slope, value=0.01)
                scale = squares.sqrt() + 1e-12
                weight -= group["lr"] * slope / scale + (group["lr"] ** 0.5) * torch.randn_like(weight) / scale.sqrt()


@pytest.mark.parametrize(("rate", "outcome"), [(1e-4, Outcome.PASS), (1e2, Outcome.FAIL)])
def test_an_optimizer_that_cannot_do_without_its_decay(rate: float, outcome: Outcome) -> None:
    """A column that is always 0 gives a gradient of exactly 0: without decay its noise has no bounds."""
    batches = [(torch.cat([x, torch.zeros(len(x), 1)], dim=1), y) for x, y in classes(8)]
    batches = [(x + torch.tensor([0.0] * 8 + [1e-3]) * (index > 0), y) for index, (x, y) in enumerate(batches)]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return 1e4 * cross_entropy(model, batch)

    model = mlp(9)
    trial = trial_of(model, batches, loss, Langevin(model.parameters(), rate, 10.0))
    verdict = ask("cannot-overfit-one-batch", trial)
    says(verdict, outcome, *(["rises"] if outcome is Outcome.FAIL else []))


def looked_at(evaluates: bool, on: str = "the same", before: bool = False, dropout: bool = True) -> Any:
    """A loop that calls its model once more in the round of its step, and has no evaluation of its own."""
    model = nn.Sequential(*mlp(), *([nn.Dropout(0.2)] if dropout else []))
    optimizer = torch.optim.Adam(model.parameters())

    def look(x: Tensor) -> None:
        model.train(not evaluates)
        with torch.no_grad():
            model(x if on == "the same" else x + 1)
        model.train()

    def step(batch: Any, _: int) -> None:
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        if before:
            look(batch[0])
        loss.backward()
        optimizer.step()
        if not before:
            look(batch[0])

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step=step)
    return replace(trial, evaluate_step=None, validation_batches=None)


def test_a_look_at_the_model_after_its_step_in_training_mode() -> None:
    says(ask("missing-eval-mode", looked_at(evaluates=False)), Outcome.WARN, "called again on the same", "Dropout")
    says(ask("missing-eval-mode", looked_at(evaluates=True)), Outcome.PASS, "evaluation mode")


@pytest.mark.parametrize("how", [{"on": "others"}, {"before": True}], ids=("other rows", "before the step"))
def test_what_a_step_may_compute_without_gradients(how: Any) -> None:
    assert ask("missing-eval-mode", looked_at(evaluates=False, **how)).outcome is Outcome.SKIP


def test_a_look_at_a_model_without_modes_passes() -> None:
    says(ask("missing-eval-mode", looked_at(evaluates=False, dropout=False)), Outcome.PASS)
