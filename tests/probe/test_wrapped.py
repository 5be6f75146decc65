"""Weights that are trained and that the framework does not know."""

from __future__ import annotations

import torch
from probe_programs import ask, classes, cross_entropy, mlp, trial_of
from torch import nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "parameter-outside-wrapped-model"


class Holder:
    def __init__(self, head: nn.Module) -> None:
        self.head = head


def trained(*more: nn.Module) -> Trial:
    model = mlp()
    weights = [weight for module in (model, *more) for weight in module.parameters()]
    trial = trial_of(model, classes(8), cross_entropy, torch.optim.SGD(weights, lr=0.1))
    trial.saved = {"model": model, "optimizer": trial.optimizers["optimizer"]}
    return trial


def test_weights_of_wrapped_models_pass() -> None:
    verdict = ask(RULE, trained())
    assert verdict.outcome is Outcome.PASS
    assert "all 6" in verdict.summary


def test_a_head_that_was_never_wrapped_is_named() -> None:
    head = nn.Linear(5, 2)
    trial = trained(head)
    trial.objects = (Holder(head),)
    verdict = ask(RULE, trial)
    assert verdict.outcome is Outcome.FAIL
    assert "2 of 8 trained parameters belong to no wrapped model (`Holder.head.weight`)" in verdict.summary


def test_a_second_wrapped_model_is_known() -> None:
    head = nn.Linear(5, 2)
    trial = trained(head)
    trial.models = {**trial.models, "head": head}
    assert ask(RULE, trial).outcome is Outcome.PASS


def test_where_no_framework_saves_nothing_is_asked() -> None:
    assert ask(RULE, trial_of(mlp(), classes(8), cross_entropy)).outcome is Outcome.SKIP
