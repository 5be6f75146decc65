"""Programs whose own loop sets the learning rate, without a scheduler."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from probe_programs import Asked, ask, classes, cross_entropy, mlp, says, trial_of
from torch.optim import Optimizer

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.simplified import nominal_rate, with_rates
from mlcheck.trial.trial import Trial

LOW = "learning-rate-too-low"


def warming(rate: float, warmup: int) -> Trial:
    """As a script that has set the first of its rates already when it is followed."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)

    def set_rate(index: int) -> None:
        for group in optimizer.param_groups:
            group["lr"] = rate * min(1.0, (index + 1) / (warmup + 1))

    def step(batch: Any, index: int) -> dict[str, float]:
        set_rate(index)
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        optimizer.step()
        return {"loss": loss.item()}

    set_rate(0)
    return trial_of(model, classes(8), cross_entropy, optimizer, step)


def test_a_warm_up_by_hand_is_judged_at_the_rate_it_leads_to() -> None:
    asked = Asked(warming(0.1, 2000))
    verdict = asked.verdict(LOW)
    says(verdict, Outcome.PASS, "lower at 0.1 than with next to no step at all")
    assert verdict.numbers["learning rate"] == pytest.approx(0.1)
    assert asked.verdict("learning-rate-too-high").outcome is Outcome.PASS


def test_a_rate_that_is_too_low_when_it_is_warm_is_told() -> None:
    says(ask(LOW, warming(1e-5, 10)), Outcome.WARN, "your learning rate (1e-05) hardly moves the model")


@pytest.mark.parametrize(("steps", "outcome"), [(2000, Outcome.INCONCLUSIVE), (0, Outcome.WARN)])
def test_a_warm_up_to_the_rate_that_torch_chooses_too(steps: int, outcome: Outcome) -> None:
    """Nothing says where it leads, as that rate may be nobody's; that the loop raises it is seen."""
    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    taken = itertools.count(1)

    def step(batch: Any, _: int) -> dict[str, float]:
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        optimizer.step()
        optimizer.param_groups[0]["lr"] = 1e-3 * (1 + next(taken)) / 2000 if steps else 5e-7
        return {"loss": loss.item()}

    optimizer.param_groups[0]["lr"] = 5e-7
    asked = Asked(trial_of(model, classes(8), cross_entropy, optimizer, step))
    says(asked.verdict(LOW), outcome, "your loop itself raises it to" if steps else "hardly moves the model")


def groups_of(rates: list[float], named: float | None = None) -> Trial:
    model = mlp()
    layers = [layer for layer in model if list(layer.parameters())]
    groups = [{"params": layer.parameters(), "lr": rate} for layer, rate in zip(layers, rates, strict=False)]
    optimizer = torch.optim.Adam(groups) if named is None else torch.optim.Adam(groups, lr=named)
    return trial_of(model, classes(8), cross_entropy, optimizer)


def test_a_rate_that_torch_chose_says_nothing_of_the_program_s() -> None:
    assert nominal_rate(groups_of([1e-6, 1e-5])) == pytest.approx(1e-5)


def test_groups_keep_their_relation() -> None:
    trial = groups_of([1e-6, 1e-5], named=3e-4)
    optimizer = trial.optimizers["optimizer"]
    with with_rates(trial, 10.0):
        assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([3e-4, 3e-3])


def test_what_is_held_is_put_back() -> None:
    trial = warming(0.1, 9)
    optimizer: Optimizer = trial.optimizers["optimizer"]
    groups = list(optimizer.param_groups)
    with with_rates(trial, 2.0) as asked:
        optimizer.param_groups[0]["lr"] = 5.0
        optimizer.param_groups[0]["momentum"] = 0.5
        assert optimizer.param_groups[0]["lr"] == pytest.approx(0.2)
    assert asked == [5.0]
    assert all(now is then for now, then in zip(optimizer.param_groups, groups, strict=True))
    assert groups[0]["lr"] == pytest.approx(0.01)
    assert groups[0]["momentum"] == 0.5
