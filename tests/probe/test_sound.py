"""Sound programs of every kind: no probe may fail on any of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Asked, ask, classes, cross_entropy, mlp, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.probe.chosen import probe_rules

ALARMS = {Outcome.FAIL, Outcome.WARN, Outcome.ERROR}
# What is as it looks: a rate of 1e-3 with SGD is slow, a layer that is frozen at once was never trained.
DESERVED = {"slow": {"learning-rate-too-low", "cannot-overfit-one-batch"}, "frozen": {"frozen-fresh-weights"}}


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_no_probe_alarms(name: str) -> None:
    asked = Asked(SOUND[name]())
    verdicts = {rule: asked.verdict(rule) for rule in probe_rules() if rule not in DESERVED.get(name, ())}
    assert not {rule: v.findings[0].message for rule, v in verdicts.items() if v.outcome in ALARMS}
    assert sum(v.outcome is Outcome.PASS for v in verdicts.values()) >= 5, "too little was looked at"


@pytest.mark.slow
@pytest.mark.parametrize("name", SOUND)
def test_memorising_does_not_alarm_with_another_seed(name: str) -> None:
    torch.manual_seed(1)
    verdict = ask("cannot-overfit-one-batch", SOUND[name]())
    allowed = {Outcome.PASS, Outcome.INCONCLUSIVE} | ({Outcome.WARN} if name == "slow" else set())
    assert verdict.outcome in allowed, verdict.summary


@pytest.mark.parametrize("name", ["mlp", "log-softmax", "regression", "multilabel", "frozen"])
def test_memorising_passes(name: str) -> None:
    verdict = ask("cannot-overfit-one-batch", SOUND[name]())
    assert verdict.outcome is Outcome.PASS, verdict.reason or verdict.summary


def test_a_learning_rate_that_learns_most_of_a_batch_is_enough() -> None:
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.035)
    verdict = ask("cannot-overfit-one-batch", trial_of(model, classes(8), cross_entropy, optimizer))
    assert verdict.outcome is Outcome.PASS, verdict.reason or verdict.summary
    assert "where a constant prediction costs" in verdict.summary
    assert "learns the same batch in" in verdict.summary


def test_a_slow_learning_rate_warns_and_adam_shows_why() -> None:
    verdict = ask("cannot-overfit-one-batch", SOUND["slow"]())
    assert verdict.outcome is Outcome.WARN
    assert "Adam 0.001 learns the same batch" in verdict.summary
    assert "raise the learning rate (0.001)" in verdict.findings[0].help


def test_a_gan_has_no_loss_that_must_fall() -> None:
    assert "several optimizers take turns" in ask("cannot-overfit-one-batch", SOUND["gan"]()).reason


def test_a_head_with_nothing_to_learn_is_left_out() -> None:
    batches = [(x, y, torch.zeros_like(y)) for x, y in classes(8)]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        out = model(batch[0])
        return F.cross_entropy(out[:, :5], batch[1]) + F.cross_entropy(out[:, 5:], batch[2])

    verdict = ask("cannot-overfit-one-batch", trial_of(mlp(8, 10), batches, loss))
    assert verdict.outcome is Outcome.PASS, verdict.reason
    assert "all 2 losses" in verdict.summary


def test_a_batch_of_one_class_has_nothing_to_learn() -> None:
    batches = [(x, torch.zeros_like(y)) for x, y in classes(8)]
    verdict = ask("cannot-overfit-one-batch", trial_of(mlp(), batches, cross_entropy))
    assert "targets of the batch are the same" in verdict.reason
