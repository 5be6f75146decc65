"""Each prediction is compared with the target of its own sample."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, fails, mlp, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome

TURNED = torch.tensor([row for row in reversed(range(32)) if row != 8])


SORTED = torch.cat([TURNED[:8], torch.tensor([8]), TURNED[8:]])


HALF = torch.cat([torch.arange(16), torch.arange(16, 32).flip(0)])


PAIRED: dict[str, tuple[Any, Outcome]] = {
    "rolled": (lambda out, y: F.cross_entropy(out, y.roll(1)), Outcome.FAIL),
    "flipped": (lambda out, y: F.cross_entropy(out.flip(0), y), Outcome.FAIL),
    "in another order, sample 8 where it was": (lambda out, y: F.cross_entropy(out[SORTED], y), Outcome.FAIL),
    "half of them in another order": (lambda out, y: F.cross_entropy(out[HALF], y), Outcome.PASS),
    "its own": (lambda out, y: F.cross_entropy(out, y), Outcome.PASS),
    "both flipped": (lambda out, y: F.cross_entropy(out.flip(0), y.flip(0)), Outcome.PASS),
    "mixed with another": (
        lambda out, y: 0.7 * F.cross_entropy(out, y) + 0.3 * F.cross_entropy(out, y.roll(1)),
        Outcome.PASS,
    ),
    "weighted by class": (lambda out, y: F.cross_entropy(out, y, weight=torch.arange(1.0, 6.0)), Outcome.PASS),
    "of the other half": (lambda out, y: F.cross_entropy(out[:16], y[:16]), Outcome.PASS),
}


@pytest.mark.parametrize("how", PAIRED)
def test_each_prediction_is_compared_with_its_own_target(how: str) -> None:
    loss, outcome = PAIRED[how]
    verdict = ask("batch-mixing", trial_of(mlp(), classes(8), lambda model, batch: loss(model(batch[0]), batch[1])))
    assert verdict.outcome is outcome, verdict
    assert ("the loss compares predictions with other samples' targets" in verdict.summary) is (outcome is Outcome.FAIL)


@pytest.mark.parametrize(("order", "outcome"), [((0,), Outcome.FAIL), ((), Outcome.PASS)])
def test_a_loss_whose_gradient_is_a_sign_says_whose_target_it_gets(order: tuple[int, ...], outcome: Outcome) -> None:
    model = nn.Linear(8, 1)
    batches = [(x, 20 * x.sum(1) + torch.linspace(-3, 3, len(x))) for x, _ in classes(8)]
    trial = trial_of(model, batches, lambda net, batch: F.l1_loss(net(batch[0])[:, 0], batch[1].flip(order)))
    says(ask("batch-mixing", trial), outcome)


def test_a_tensor_that_may_not_be_exchanged_hides_no_other() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        x, order, y = batch
        if not bool((order.diff() > 0).all()):
            raise ValueError("not in order")
        return F.cross_entropy(model(x), y.roll(1))

    batches = [(x, torch.arange(len(x)), y) for x, y in classes(8)]
    assert "samples' targets: with another `batch[2]`" in fails("batch-mixing", trial_of(mlp(), batches, loss)).summary


@pytest.mark.parametrize(
    ("rolls", "outcome"), [((1,), Outcome.FAIL), ((0,), Outcome.PASS), ((0, 1), Outcome.PASS), ((), Outcome.PASS)]
)
def test_an_autoencoder_is_asked_for_its_own_input(rolls: tuple[int, ...], outcome: Outcome) -> None:
    """Another sample's beside its own is a negative example."""

    def loss(model: nn.Module, batch: Any) -> Tensor:
        (x,) = batch
        return sum(F.mse_loss(model(x), x.roll(roll, 0)) for roll in rolls) + model(x).square().mean()

    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))
    batches = [(torch.randn(32, 8, generator=torch.Generator().manual_seed(seed)),) for seed in range(4)]
    says(ask("batch-mixing", trial_of(model, batches, loss)), outcome, *(["is `batch[0]` of"] if rolls == (1,) else []))
