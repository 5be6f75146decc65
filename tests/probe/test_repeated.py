"""Two runs with one seed."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from probe_programs import SOUND, ask, classes, cross_entropy, mlp, trial_of
from torch import Tensor

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

RULE = "run-not-repeatable"
FRESH = itertools.count(1)


def again(construct: Callable[[], Trial]) -> Trial:
    def seeded(*_: int) -> Trial:
        torch.manual_seed(0)
        return construct()

    trial = seeded()
    trial.again = seeded
    return trial


def plain() -> Trial:
    return trial_of(mlp(), classes(8), cross_entropy)


def unseeded_weights() -> Trial:
    trial = plain()
    with torch.no_grad():
        next(iter(trial.models["model"].parameters())).add_(next(FRESH))
    return trial


def unseeded_batches() -> Trial:
    trial = plain()
    batches = [(x + next(FRESH), y) for x, y in trial.train_batches()]
    trial.train_batches = lambda: iter(batches)
    return trial


def unseeded_step() -> Trial:
    trial = plain()
    inner = trial.train_step

    def step(batch: Any, index: int) -> dict[str, Tensor]:
        inputs, labels = batch
        return dict(inner((inputs * (1 + 0.01 * next(FRESH)), labels), index))

    trial.train_step = step
    return trial


@pytest.mark.parametrize("name", sorted(SOUND))
def test_sound_programs_repeat_themselves(name: str) -> None:
    assert ask(RULE, SOUND[name]()).outcome is Outcome.PASS


def test_two_starts_are_compared_where_the_program_can_be_constructed_again() -> None:
    verdict = ask(RULE, again(plain))
    assert verdict.outcome is Outcome.PASS
    assert verdict.summary.startswith("two starts with one seed agree")


@pytest.mark.parametrize(
    ("construct", "parting"),
    [
        (unseeded_weights, "diverge at the initial weights (`model.0.weight`)"),
        (unseeded_batches, "diverge at batch 1 (`0`)"),
        (unseeded_step, "diverge at the metrics of step 1 (`loss`)"),
    ],
)
def test_what_differs_first_is_named(construct: Callable[[], Trial], parting: str) -> None:
    verdict = ask(RULE, again(construct))
    assert verdict.outcome is Outcome.WARN
    assert parting in verdict.summary


def test_a_step_that_draws_unseeded_numbers_is_seen_without_a_second_start() -> None:
    assert ask(RULE, unseeded_step()).outcome is Outcome.WARN
