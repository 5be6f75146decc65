"""Sound tables of many kinds: no probe of columns or labels says a word."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Asked
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits, load_iris, load_wine, make_blobs
from table_programs import classified, draws, numbers, rare, regressed, standard

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

TABLE_RULES = ("classes-imbalanced", "labels-constant", "constant-feature", "outlier-values", "target-in-input")


def counts() -> Trial:
    """A bag of words: most columns are zero nearly always, some of them always."""
    rates = torch.logspace(-5, 0, 60)
    return classified(torch.poisson(rates.expand(500, 60), generator=draws()), rare(0.4, 500))


def one_hot() -> Trial:
    kinds = torch.multinomial(1.0 / torch.arange(1, 51) ** 2, 400, replacement=True, generator=draws())
    return classified(torch.cat([F.one_hot(kinds, 60).float(), numbers(400)], dim=1), rare(0.5, 400))


def from_sklearn(load: Any, scale: bool = True) -> Trial:
    x, y = (torch.as_tensor(part) for part in load(return_X_y=True))
    x = standard(x.float()) if scale else x.float()
    return classified(x, y) if not y.is_floating_point() else regressed(x, y.float())


def blobs(columns: int) -> Trial:
    x, y = make_blobs(500, columns, centers=3, cluster_std=0.05, random_state=0)
    return classified(torch.as_tensor(x).float(), torch.as_tensor(y))


def ages() -> Trial:
    """A regression whose targets are whole years."""
    x = numbers(800)
    return regressed(x, (40 + 10 * x[:, 0] + 3 * x[:, 1]).round())


def smooth() -> Trial:
    """A function of one input."""
    x = numbers(500, 1)
    return regressed(x, (3 * x[:, 0]).sin())


def incomes() -> Trial:
    return classified((2 * numbers(2000)).exp(), rare(0.4, 2000))


def drawn_twice() -> Trial:
    some = torch.randint(60, (600,), generator=draws())
    return classified(numbers(60)[some], rare(0.5, 60)[some])


def one_channel() -> Trial:
    pictures = torch.rand(200, 1, 8, 8, generator=draws())
    pictures[:, :, 0] = 0
    return classified(pictures, rare(0.5, 200))


def padded_series() -> Trial:
    series = numbers(300, 20)[:, None]
    series[:, :, 15:] = 0
    return classified(series, rare(0.5, 300))


SOUND_TABLES = {
    "padded series": padded_series,
    "iris": lambda: from_sklearn(load_iris),
    "wine": lambda: from_sklearn(load_wine),
    "breast cancer": lambda: from_sklearn(load_breast_cancer),
    "diabetes": lambda: from_sklearn(load_diabetes),
    "digits": lambda: from_sklearn(load_digits, scale=False),
    "digits scaled by pixel": lambda: from_sklearn(load_digits),
    "word counts": counts,
    "one-hot": one_hot,
    "two far blobs": lambda: blobs(2),
    "far blobs": lambda: blobs(8),
    "whole years": ages,
    "one input": smooth,
    "log-normal": incomes,
    "drawn again and again": drawn_twice,
    "black border": one_channel,
    "intercept": lambda: classified(torch.cat([numbers(), torch.ones(600, 1)], dim=1), rare(0.5, 600)),
}


@pytest.mark.parametrize("name", SOUND_TABLES)
def test_sound_tables_pass(name: str) -> None:
    asked = Asked(SOUND_TABLES[name]())
    verdicts = {rule: asked.verdict(rule) for rule in TABLE_RULES}
    said = {rule: v.summary for rule, v in verdicts.items() if v.outcome not in (Outcome.PASS, Outcome.SKIP)}
    assert not said
