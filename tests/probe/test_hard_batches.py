"""Batches that arithmetic does not survive, behind those that a short run gets to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch.nn.functional as F
from probe_programs import classes, mlp, says, trial_of
from torch import Tensor

from mlcheck.core.outcome import Outcome
from mlcheck.probe.checks import non_finite_gradient
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.training.hard_batches import HardBatches
from mlcheck.probe.measure.training.short_run import ShortRun
from mlcheck.trial.trial import Trial

Prepare = Callable[[Tensor], Tensor]


def by_norm(x: Tensor) -> Tensor:
    return x / x.norm(dim=1, keepdim=True)


def by_column(x: Tensor) -> Tensor:
    return (x - x.mean(0)) / x.std(0)


def by_exponent(x: Tensor) -> Tensor:
    return x.exp()


def guarded(x: Tensor) -> Tensor:
    return x / x.norm(dim=1, keepdim=True).clamp_min(1e-6)


def blank(x: Tensor) -> None:
    x[3] = 0.0


def constant(x: Tensor) -> None:
    x[:, 2] = 1.0


def far_off(x: Tensor) -> None:
    x[5, 1] = 200.0


def training(prepare: Prepare, spoil: Callable[[Tensor], None]) -> Trial:
    batches = classes(8)
    spoil(batches[-1][0])

    def loss(model: Any, batch: Any) -> Tensor:
        return F.cross_entropy(model(prepare(batch[0])), batch[1])

    return trial_of(mlp(8), batches, loss)


@pytest.mark.parametrize(
    ("prepare", "spoil", "what"),
    [
        (by_norm, blank, "with a sample whose 8 numbers in `batch[0]` are all 0"),
        (by_column, constant, "in which column 2 of `batch[0]` is 1 for all"),
        (by_exponent, far_off, "with the largest number of `batch[0]`, 200,"),
    ],
)
def test_the_one_batch_that_is_not_survived(prepare: Prepare, spoil: Callable[[Tensor], None], what: str) -> None:
    hard = HardBatches.measure(training(prepare, spoil), 60.0)
    assert [one.what.startswith(what) for one in hard.broken] == [True]
    says(non_finite_gradient.check(ShortRun(steps=3), hard), Outcome.FAIL, what, "no finite number")


def test_hard_batches_that_are_survived() -> None:
    hard = HardBatches.measure(training(guarded, blank), 60.0)
    assert not hard.broken
    assert hard.tried >= 1
    assert non_finite_gradient.check(ShortRun(steps=3), hard).outcome is Outcome.PASS


def test_nothing_is_told_where_no_batch_is_survived() -> None:
    with pytest.raises(NotMeasured, match="an ordinary batch"):
        HardBatches.measure(training(lambda x: x / 0.0, blank), 60.0)
