"""Losses that sink as far as an output is moved, and losses that may fall below zero and are held."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_programs import ask, classes, mlp, says, trial_of
from torch import Tensor, nn
from torch.distributions import Categorical

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import loss_maximised
from mlcheck.probe.measure.loss.first_loss import FirstLoss
from mlcheck.probe.measure.loss.sinking import Sink, Sinking
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.trial.trial import Trial

RULE = "loss-maximised"
Loss = Callable[[nn.Module, Any], Tensor]


def mixture(out: Tensor, y: Tensor, normalised: bool) -> Tensor:
    """The negative likelihood of `y` under two Gaussians."""
    weight, middle = out[:, :2], out[:, 2:4]
    weight = weight.log_softmax(1) if normalised else weight
    return -(weight - (y[:, None] - middle).square() / 2).logsumexp(1).mean()


def count(out: Tensor, y: Tensor, sign: float) -> Tensor:
    return (out[:, 0].exp() + sign * y * out[:, 0]).mean()


def written(loss: Callable[[Tensor, Tensor], Tensor]) -> Trial:
    batches = [(x, x[:, 0].exp().round()) for x, _ in classes(8)]
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return trial_of(model, batches, lambda m, b: loss(m(b[0]), b[1]), optimizer)


SINKING: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "weights of a mixture that are no logarithms": lambda out, y: mixture(out, y, False),
    "counts with the wrong sign": lambda out, y: count(out, y, 1.0),
    "scores that nothing normalises": lambda out, y: -out.gather(1, (y > 1).long()[:, None]).mean(),
}


@pytest.mark.parametrize("name", SINKING)
def test_losses_without_a_lower_bound(name: str) -> None:
    verdict = ask(RULE, written(SINKING[name]))
    says(verdict, Outcome.WARN, "no lower bound", "samples tried, and rises in none", "`4 (Linear)`")


def test_a_fall_by_less_than_training_has_is_no_bottomless_one() -> None:
    run = ShortRun(steps=40, losses=[-0.02 * k for k in range(40)], backwards=40, before=[], after=[])
    for fall, outcome in ((3e-5, Outcome.SKIP), (500.0, Outcome.WARN)):
        sinking = Sinking(1, (Sink("0 (Linear)", "taken from", fall, 8, 8),), Location())
        assert loss_maximised.check(FirstLoss(), None, sinking, run).outcome is outcome


@pytest.mark.parametrize("together", [True, False])
def test_several_optimizers_of_one_loss(together: bool) -> None:
    """Of an encoder and a decoder that step together the loss is followed as any other; a GAN's are not one loss."""
    model, counted = mlp(), SINKING["counts with the wrong sign"]
    parts = {"encoder": model[:2], "decoder": model[2:]}
    optimizers = {name: torch.optim.Adam(part.parameters(), lr=1e-2) for name, part in parts.items()}

    def step(batch: Any, _: int) -> dict[str, float]:
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss = counted(model(batch[0]), batch[1])
        loss.backward(retain_graph=not together)
        if not together:
            (-loss).backward()
        for optimizer in optimizers.values():
            optimizer.step()
        return {"loss": loss.item()}

    batches = [(x, x[:, 0].exp().round()) for x, _ in classes(8)]
    trial = trial_of(model, batches, lambda m, b: counted(m(b[0]), b[1]), step=step)
    trial.optimizers = dict(optimizers)
    verdict = ask(RULE, trial)
    assert (verdict.outcome is Outcome.WARN) is together, verdict
    assert ("no lower bound" in str(verdict)) is together


def narrowing(out: Tensor, y: Tensor) -> Tensor:
    """Falls below zero as the density narrows."""
    middle, spread = out[:, 0], out[:, 1].clamp(-6, 6)
    return (spread + 0.5 * ((1e-3 * y - middle) / spread.exp()) ** 2).mean()


def gradient_of_a_policy(out: Tensor, y: Tensor) -> Tensor:
    """Half of the actions did better than expected, the others worse."""
    draws = torch.Generator().manual_seed(0)
    action = torch.randint(5, (len(y),), generator=draws)
    return -(Categorical(logits=out).log_prob(action) * (y - y.mean())).mean()


HELD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "a mixture": lambda out, y: mixture(out, y, True),
    "counts": lambda out, y: count(out, y, -1.0),
    "a density that narrows": narrowing,
    "a policy": gradient_of_a_policy,
    "energies of data and samples": lambda out, y: out[::2, 0].mean() - out[1::2, 0].mean(),
    "a likeness": lambda out, y: -torch.cosine_similarity(out[::2], out[1::2]).mean(),
    "an entropy that is kept up": lambda out, y: (out.softmax(1) * out.log_softmax(1)).sum(1).mean(),
}


@pytest.mark.parametrize("name", HELD)
def test_losses_that_may_fall_below_zero(name: str) -> None:
    assert ask(RULE, written(HELD[name])).outcome is not Outcome.WARN


def test_a_critic_that_an_adversary_works_against() -> None:
    """With an optimizer for each, no single loss has to have a bound."""
    trial = written(lambda out, y: -out.mean())
    trial.optimizers["other"] = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1)
    assert ask(RULE, trial).outcome is not Outcome.WARN
