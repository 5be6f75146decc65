"""Random numbers that are set back with every sample or step, and seeds that are meant."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from data_programs import Changed, table
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of, trial_on
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome

RULE = "reseeded-alike"


def seeding(how: Callable[[int], object]) -> Any:
    def change(index: int, sample: Any) -> Any:
        how(index)
        return sample[0] + 0.1 * torch.randn(8) + np.random.rand() + random.random(), sample[1]

    return trial_on(Changed(table(), change), table(seed=2))


@pytest.mark.parametrize(
    ("how", "name"),
    [
        (lambda _: torch.manual_seed(0), "torch.manual_seed"),
        (lambda _: np.random.seed(3), "numpy.random.seed"),
        (lambda _: random.seed(3), "random.seed"),
    ],
)
def test_a_seed_set_with_every_sample(how: Callable[[int], object], name: str) -> None:
    says(ask(RULE, seeding(how)), Outcome.FAIL, "reading a sample sets random numbers back", f"`{name}`")


@pytest.mark.parametrize("how", [lambda _: None, torch.manual_seed, lambda i: torch.Generator().manual_seed(0)])
def test_seeds_that_differ_and_generators_of_their_own(how: Callable[[int], object]) -> None:
    says(ask(RULE, seeding(how)), Outcome.PASS, "go on")


def test_a_seed_set_with_every_step() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        torch.manual_seed(1)
        return cross_entropy(model, (batch[0] + torch.randn_like(batch[0]), batch[1]))

    says(ask(RULE, trial_of(mlp(), classes(8), loss)), Outcome.FAIL, "a training step sets random numbers back")
