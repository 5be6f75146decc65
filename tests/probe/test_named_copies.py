"""Averages that are the model under another name, and names that only look like one."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of

from mlcheck.core.finding import Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import averaged_copy_wrong
from mlcheck.probe.measure.loss.bootstrapped import Bootstrapped
from mlcheck.probe.measure.model.averaged_copy import AveragedCopies


class Holder:
    def __init__(self, **held: Any) -> None:
        vars(self).update(held)


@pytest.mark.parametrize("how", [lambda model: model, copy.copy])
def test_an_average_that_is_the_model(how: Any) -> None:
    model = mlp()
    trial = trial_of(model, classes(8), cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1))
    trial.objects = (Holder(model=model), Holder(shadow=how(model)))
    says(ask("averaged-copy-wrong", trial), Outcome.FAIL, "`Holder.shadow` is the model itself, not a copy")


@pytest.mark.parametrize(("how", "outcome"), [(copy.copy, Outcome.FAIL), (lambda model: model, Outcome.SKIP)])
def test_a_shallow_copy_is_the_model_whatever_it_is_called(how: Any, outcome: Outcome) -> None:
    model = mlp()
    trial = trial_of(model, classes(8), cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1))
    trial.objects = (Holder(model=model, teacher=how(model)),)
    says(ask("averaged-copy-wrong", trial), outcome)


@pytest.mark.parametrize("names", [("T.model",), ("T.ema_model",), ("T.model", "T.semantic"), ("T.model", "T.net")])
def test_other_names_of_a_model(names: tuple[str, ...]) -> None:
    seen = AveragedCopies((), 0, False, Location(), names)
    says(averaged_copy_wrong.check(seen, None, None), Outcome.SKIP, "no second copy")


@pytest.mark.parametrize(
    ("names", "outcome"), [(("T.online", "T.target_net"), Outcome.WARN), (("T.target",), Outcome.SKIP)]
)
def test_a_target_network_that_is_the_one_that_learns(names: tuple[str, ...], outcome: Outcome) -> None:
    seen = AveragedCopies((), 0, False, Location(), names)
    assert averaged_copy_wrong.check(seen, None, Bootstrapped(1, ())).outcome is outcome
    assert averaged_copy_wrong.check(seen, None, None).outcome is Outcome.SKIP
