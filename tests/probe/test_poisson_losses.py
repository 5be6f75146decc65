"""What enters a Poisson loss: the logarithm of a rate, or the rate."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from torch import Tensor

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "poisson-input-not-log"
Loss = Callable[[Tensor, Tensor], Tensor]


def counting(loss: Loss) -> Trial:
    draws = torch.Generator().manual_seed(0)
    batches = [(x, torch.poisson(x[:, 0].exp(), generator=draws)) for x, _ in classes(8)]
    return trial_of(mlp(out=1), batches, lambda model, batch: loss(model(batch[0])[:, 0], batch[1]))


WRONG: dict[str, tuple[Loss, str]] = {
    "exp of exp": (lambda s, y: F.poisson_nll_loss(s.exp(), y), "comes from exp"),
    "exp of softplus": (lambda s, y: F.poisson_nll_loss(F.softplus(s), y, full=True), "comes from softplus"),
    "scores as a rate": (lambda s, y: F.poisson_nll_loss(s.clamp(min=-1e-9), y, log_input=False), "goes down to"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_the_loss_was_not_told(name: str) -> None:
    loss, said = WRONG[name]
    says(ask(RULE, counting(loss)), Outcome.WARN, "the input of poisson_nll_loss", said)


@pytest.mark.parametrize(
    "loss",
    [
        lambda s, y: F.poisson_nll_loss(s, y),
        lambda s, y: F.poisson_nll_loss(s.exp(), y, log_input=False),
        lambda s, y: F.poisson_nll_loss(F.softplus(s), y, log_input=False),
        lambda s, y: F.poisson_nll_loss((s.exp() + 1e-6).log(), y),
        lambda s, y: F.poisson_nll_loss(3 - s.exp(), y),
    ],
)
def test_sound_poisson_losses(loss: Loss) -> None:
    assert ask(RULE, counting(loss)).outcome is Outcome.PASS


def test_without_a_poisson_loss() -> None:
    assert ask(RULE, trial_of(mlp(), classes(8), cross_entropy)).outcome is Outcome.SKIP


def test_an_exponential_never_reaches_targets_below_zero() -> None:
    batches = [(x, x[:, :1]) for x, _ in classes(8)]
    trial = trial_of(mlp(out=1), batches, lambda m, b: F.mse_loss(m(b[0]).exp(), b[1]))
    says(ask("output-cannot-reach-targets", trial), Outcome.FAIL, "comes from exp", "targets lie outside")
