"""An error on a changed run that the plain run does not have is no fault of the program's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_programs import classes, cross_entropy, examined, mlp, trial_of
from torch import nn

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.model import activations
from mlcheck.trial.trial import Trial

ENTRY, LATER = "entry-does-not-run", "later-step-breaks"


def stepping(complain: Callable[[nn.Module, float, dict[str, Any]], None], rate: float = 3e-3) -> Trial:
    """A trial whose step calls `complain` with the model, its loss and what it keeps between steps."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    held: dict[str, Any] = {"steps": 0}

    def step(batch: Any, _: int) -> dict[str, float]:
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        optimizer.step()
        held["steps"] += 1
        complain(model, loss.item(), held)
        return {"loss": loss.item()}

    trial = trial_of(model, classes(8), cross_entropy, optimizer, step)
    trial.objects = (held,)
    return trial


def insists_on_movement(model: nn.Module, _: float, held: dict[str, Any]) -> None:
    """As a program that stops early where nothing improves, and then plots a history that is too short."""
    now = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    if "before" in held and torch.equal(held["before"], now):
        raise IndexError("the history is too short to plot")
    held["before"] = now.clone()


@pytest.mark.parametrize("rule", ["dead-units", "signal-fades-with-depth", "inputs-not-scaled"])
def test_weights_held_still_end_a_training_early(rule: str) -> None:
    results = examined(stepping(insists_on_movement), ENTRY, LATER, rule)
    assert results[ENTRY].outcome is Outcome.PASS
    assert results[LATER].outcome is Outcome.PASS
    assert results[rule].outcome is Outcome.INCONCLUSIVE, results[rule]
    assert "IndexError: the history is too short to plot" in results[rule].reason
    assert "as it is, it does not" in results[rule].reason
    assert results[rule].traceback.endswith("IndexError: the history is too short to plot\n")


def test_a_crash_of_the_plain_run_stays_one() -> None:
    def complain(_: nn.Module, __: float, held: dict[str, Any]) -> None:
        if held["steps"] == 7:
            raise ValueError("the seventh step")

    results = examined(stepping(complain), ENTRY, LATER, "dead-units")
    assert results[ENTRY].outcome is Outcome.PASS
    assert results[LATER].outcome is Outcome.FAIL
    assert "training step 7 raises ValueError: the seventh step" in results[LATER].headline
    assert results["dead-units"].outcome is not Outcome.INCONCLUSIVE
    alone = examined(stepping(complain), ENTRY, "dead-units")["dead-units"]
    assert alone.outcome is Outcome.ERROR
    assert "the seventh step" in alone.headline


def test_a_fault_of_the_measurement_itself_stays_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activations, "Clock", None)
    results = examined(stepping(lambda *_: None), ENTRY, "dead-units")
    assert results["dead-units"].outcome is Outcome.ERROR


def test_another_rate_that_ends_the_training_is_no_divergence() -> None:
    trial = stepping(lambda *_: None)
    plain = trial.train_step

    def step(batch: Any, index: int) -> Any:
        if trial.optimizers["optimizer"].param_groups[0]["lr"] != 3e-3:
            raise IndexError("the history is too short to plot")
        return plain(batch, index)

    trial.train_step = step
    rules = ("learning-rate-too-low", "learning-rate-too-high")
    results = examined(trial, ENTRY, *rules)
    for rule in rules:
        assert results[rule].outcome is Outcome.INCONCLUSIVE, results[rule]
        assert "the program raised IndexError: the history is too short to plot" in results[rule].reason


def test_a_rate_that_makes_numbers_overflow_diverges() -> None:
    def asserts(_: nn.Module, loss: float, __: int) -> None:
        assert abs(loss) < 1e6, "loss is not finite"

    results = examined(stepping(asserts, rate=2.0), ENTRY, "learning-rate-too-low")
    assert results["learning-rate-too-low"].outcome is not Outcome.INCONCLUSIVE, results["learning-rate-too-low"]
