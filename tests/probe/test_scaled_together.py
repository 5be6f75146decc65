"""Tables that were standardised before they were split, and after."""

from __future__ import annotations

import pytest
import torch
from probe_programs import ask, says
from table_programs import classified, draws, numbers, rare, standard
from torch import Tensor
from torch.utils.data import TensorDataset

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome

FIT = 300


def verdict(x: Tensor) -> Verdict:
    y = rare(0.4, len(x))
    return ask("fit-on-eval", classified(x[:FIT], y[:FIT], validation=TensorDataset(x[FIT:], y[FIT:])))


def raw() -> Tensor:
    return 5 + numbers(420, 6) * torch.tensor([1.0, 20.0, 0.1, 3.0, 500.0, 2.0])


def by_training(x: Tensor) -> Tensor:
    return (x - x[:FIT].mean(0)) / x[:FIT].std(0)


def over_all_rows(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / x.std(0, correction=0)


@pytest.mark.parametrize("scaled", [standard, over_all_rows])
def test_a_table_that_is_standardised_before_the_split(scaled: object) -> None:
    found = verdict(scaled(raw()))  # type: ignore[operator]
    says(found, Outcome.WARN, "6 of 6 features have mean 0 and deviation 1 over all 420 rows")


@pytest.mark.parametrize(
    "x",
    [
        by_training(raw()),
        raw(),
        torch.randn(420, 6, generator=draws(3)),
        standard(raw())[torch.randperm(420, generator=draws(4))][:400],
        standard(raw()).where(torch.arange(6) < 3, raw()),
    ],
    ids=["by the training rows", "as it is", "normal", "a third split is left out", "half of the columns"],
)
def test_a_table_that_is_not(x: Tensor) -> None:
    assert verdict(x).outcome is Outcome.PASS
