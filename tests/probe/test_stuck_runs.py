"""Columns that hold one value for a while, and columns that do so by their nature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, says, trial_on
from torch import Tensor
from torch.utils.data import TensorDataset, default_collate

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def table(change: Callable[[Tensor], Any] = lambda x: None) -> TensorDataset:
    x = torch.randn(640, 8, generator=torch.Generator().manual_seed(0))
    change(x)
    return TensorDataset(x, torch.randint(5, (640,), generator=torch.Generator().manual_seed(1)))


def on(data: Any, **loading: Any) -> Trial:
    return trial_on(data, model=mlp(), loss=lambda m, b: F.cross_entropy(m(b[0]), b[1]), **loading)


def failed_join(x: Tensor) -> None:
    x[200:264, 3] = 0.0


def test_rows_of_one_file_that_lack_a_column() -> None:
    verdict = ask("constant-feature", on(table(failed_join)))
    says(verdict, Outcome.WARN, "column 3 of `batch[0]` is 0 in 64 rows on end (200 to 263 of the data set)")


def test_a_batch_that_is_put_together_wrongly() -> None:
    made = []

    def collate(samples: list[Any]) -> Any:
        x, y = default_collate(samples)
        made.append(len(y))
        if len(made) % 20 == 7:
            x[:, 5] = x[0, 5]
        return x, y

    says(ask("constant-feature", on(table(), collate_fn=collate)), Outcome.WARN, "column 5", "32 rows on end", "a pass")


def often_zero(x: Tensor) -> None:
    x[:, 3] = x[:, 3].clamp_min(0.0)
    x[200:264, 3] = 0.0


def steps(x: Tensor) -> None:
    x[:, 3] = torch.arange(640) // 40


def whole_rows(x: Tensor) -> None:
    x[200:264] = x[200]


def short(x: Tensor) -> None:
    x[200:210, 3] = 0.0


@pytest.mark.parametrize("change", [often_zero, steps, whole_rows, short, lambda x: None])
def test_columns_that_are_constant_for_a_while_by_their_nature(change: Callable[[Tensor], Any]) -> None:
    assert "rows on end" not in ask("constant-feature", on(table(change))).summary
