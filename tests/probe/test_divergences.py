"""What enters a Kullback-Leibler divergence, and over which dimension it is a distribution."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome

Loss = Callable[[Tensor, Tensor], Tensor]
RULES = ("kl-input-not-log", "softmax-over-batch")


def kl(one: Tensor, other: Tensor, **options: Any) -> Tensor:
    return F.kl_div(one, other, reduction="batchmean", **options)


WRONG: dict[str, tuple[Loss, str, str]] = {
    "probabilities": (lambda s, t: kl(s.softmax(1), t.softmax(1)), RULES[0], "comes from softmax"),
    "by hand": (lambda s, t: kl(s.exp() / s.exp().sum(1, keepdim=True), t.softmax(1)), RULES[0], "sums to 1"),
    "raw scores": (lambda s, t: kl(3 * s, t.softmax(1)), RULES[0], "raw scores"),
    "target not announced": (lambda s, t: kl(s.log_softmax(1), t.log_softmax(1)), RULES[0], "log_target is not set"),
    "announced and not so": (lambda s, t: kl(s.log_softmax(1), t.softmax(1), log_target=True), RULES[0], "is set"),
    "target over samples": (lambda s, t: kl(s.log_softmax(1), t.softmax(0)), RULES[1], "the target along dimension 0"),
    "input over samples": (lambda s, t: kl(s.log_softmax(0), t.softmax(1)), RULES[1], "along dimension 0"),
}

RIGHT: dict[str, Loss] = {
    "as it should be": lambda s, t: kl(s.log_softmax(1), t.softmax(1)),
    "both logarithms": lambda s, t: kl(s.log_softmax(-1), t.log_softmax(-1), log_target=True),
    "logarithm by hand": lambda s, t: kl((s.softmax(1) + 1e-8).log(), t.softmax(1)),
    "hard targets": lambda s, t: kl(s.log_softmax(1), F.one_hot(t.argmax(1), 5).float()),
    "both directions of a matrix": lambda s, t: (
        kl((s @ t.T).log_softmax(1), (t @ t.T).softmax(1)) + kl((s @ t.T).log_softmax(0), (t @ t.T).softmax(0))
    ),
    "over places": lambda s, t: kl(s.view(8, 4, 5).flatten(1).log_softmax(1), t.view(8, 4, 5).flatten(1).softmax(1)),
    "the likeliest classes alone": lambda s, t: kl(s.log_softmax(1)[:, :3], t.softmax(1)[:, :3]),
}


def distilled(loss: Loss) -> Any:
    teacher = mlp().requires_grad_(False)
    return trial_of(mlp(), classes(8), lambda model, batch: loss(model(batch[0]), 3 * teacher(batch[0])))


@pytest.mark.parametrize("name", WRONG)
def test_what_is_no_pair_of_distributions(name: str) -> None:
    loss, rule, said = WRONG[name]
    verdict = ask(rule, distilled(loss))
    assert verdict.outcome is Outcome.FAIL, verdict.reason or verdict.summary
    assert said in verdict.summary


@pytest.mark.parametrize("name", RIGHT)
def test_sound_divergences(name: str) -> None:
    for rule in RULES:
        assert ask(rule, distilled(RIGHT[name])).outcome in (Outcome.PASS, Outcome.INCONCLUSIVE)


def test_without_a_divergence_nothing_is_said() -> None:
    for rule in RULES:
        assert ask(rule, trial_of(mlp(), classes(8), cross_entropy)).outcome is Outcome.SKIP


def test_two_classes_prove_nothing_by_their_sum() -> None:
    model = nn.Linear(8, 2)
    trial = trial_of(model, classes(8), lambda m, b: kl(m(b[0]).softmax(0), torch.full((32, 2), 1 / 32)))
    assert ask("softmax-over-batch", trial).outcome is not Outcome.FAIL
