"""Probes of what gives the label away: a column, a pixel, a node that is in both splits."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, says, trial_of
from sklearn.datasets import load_digits
from table_programs import classified, draws, numbers, regressed
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


def leaking(kind: str) -> Trial:
    x, y = numbers(), torch.randint(4, (600,), generator=draws(2))
    if kind == "regression":
        target = x[:, 0] * x[:, 1] + 0.1 * numbers(seed=3)[:, 0]
        return regressed(torch.cat([x, 3 * target[:, None] - 7], dim=1), target)
    seldom = torch.where(torch.arange(600) % 50 == 0, 4.0 * torch.rand(600, generator=draws(6)), y.float())
    leak = {
        "coded": y.float() / 3,
        "nearly": y + 0.01 * numbers(seed=4)[:, 0],
        "but for a few": seldom + 0.01 * numbers(seed=4)[:, 0],
    }[kind]
    return classified(torch.cat([x, leak[:, None]], dim=1), y)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("coded", "the input `batch[0][:, 8]` has one value for each class"),
        ("nearly", "the input `batch[0][:, 8]` alone gives 100 % of the labels"),
        ("but for a few", "the input `batch[0][:, 8]` alone gives 9"),
        ("regression", "the input `batch[0][:, 8]` is the target `batch[1]` itself"),
    ],
)
def test_a_column_that_is_the_target(kind: str, said: str) -> None:
    says(ask("target-in-input", leaking(kind)), Outcome.WARN, said)


@pytest.mark.parametrize(("noise", "outcome"), [(0.05, Outcome.WARN), (0.6, Outcome.PASS)])
def test_a_column_that_gives_a_rare_class_away(noise: float, outcome: Outcome) -> None:
    x, y = torch.randn(2000, 8, generator=draws(1)), (torch.rand(2000, generator=draws(2)) < 0.025).long()
    x[y == 1, :3] += 1.8
    x[:, 5] = y + noise * x[:, 5]
    verdict = ask("target-in-input", classified(x, y))
    assert verdict.outcome is outcome, verdict.summary
    assert ("the mean over classes, as one is rare" in verdict.summary) is (outcome is Outcome.WARN)


def test_a_pixel_that_is_the_label() -> None:
    x, y = (torch.as_tensor(part) for part in load_digits(return_X_y=True))
    pictures = x.float().reshape(-1, 1, 8, 8) / 16
    pictures[:, 0, 0, 0] = y / 9
    says(
        ask("target-in-input", classified(pictures, y)), Outcome.WARN, "the input `batch[0][:, 0, 0, 0]` has one value"
    )


@pytest.mark.parametrize("shape", [(1, 64), (64, 1), (1, 8, 32)])
def test_a_line_of_a_spectrum_that_is_the_class_is_what_there_is_to_see(shape: tuple[int, ...]) -> None:
    x, y = numbers(columns=math.prod(shape)), torch.randint(2, (600,), generator=draws(2))
    x[:, 20] += 12 * y
    assert ask("target-in-input", classified(x.reshape(-1, *shape), y)).outcome is Outcome.PASS
    x[:, 20] = y
    says(ask("target-in-input", classified(x.reshape(-1, *shape), y)), Outcome.WARN, "one value for each class")


@pytest.mark.parametrize("columns", ["all", "but one"])
def test_columns_that_are_the_label_one_hot(columns: str) -> None:
    x, y = numbers(), torch.randint(4, (600,), generator=draws(2))
    hot = F.one_hot(y, 4).float()[:, : 4 if columns == "all" else 3] * 2 - 1
    said = "`batch[0][:, 8]`, `batch[0][:, 9]`, `batch[0][:, 10]`"
    says(ask("target-in-input", classified(torch.cat([x, hot], dim=1), y)), Outcome.WARN, said, "one-hot")
    hot[::50] = hot[::50].roll(1, 1)
    assert "one-hot" not in ask("target-in-input", classified(torch.cat([x, hot], dim=1), y)).summary
    group = F.one_hot(y // 2, 2).float()
    assert ask("target-in-input", classified(torch.cat([x, group], dim=1), y)).outcome is Outcome.PASS


def test_nodes_of_a_graph_whose_label_is_among_their_features() -> None:
    generator = draws(1)
    y = torch.arange(120) // 40  # in order, as nodes often are
    x, near = torch.randn(120, 6, generator=generator), (y[:, None] == y) * torch.rand(120, 120, generator=generator)
    seen = torch.arange(120) % 2 == 0

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy((batch["near"] @ model(batch["x"]))[batch["mask"]], batch["y"][batch["mask"]])

    def program(x: Tensor) -> Trial:
        return trial_of(mlp(x.shape[1], 3), [{"x": x, "near": near, "y": y, "mask": seen}], loss)

    leaking = torch.cat([x, F.one_hot(y, 3)], dim=1)
    says(ask("target-in-input", program(leaking)), Outcome.WARN, "`x[:, 6]`, `x[:, 7]`, `x[:, 8]`", "one-hot")
    for rule in ("target-in-input", "labels-constant", "training-data-not-shuffled", "baseline-not-beaten"):
        assert ask(rule, program(x)).outcome not in (Outcome.WARN, Outcome.FAIL), rule


@pytest.mark.parametrize(
    ("kind", "outcome"), [("apart", Outcome.PASS), ("shared", Outcome.FAIL), ("ids", Outcome.FAIL)]
)
def test_nodes_of_a_graph_that_are_in_both_splits(kind: str, outcome: Outcome) -> None:
    x, y = torch.randn(120, 6, generator=draws(1)), torch.randint(3, (120,), generator=draws(2))
    seen = torch.rand(120, generator=draws(3)) < 0.5
    others = ~seen if kind == "apart" else torch.rand(120, generator=draws(4)) < 0.5
    if kind == "ids":
        seen, others = seen.nonzero()[:, 0], others.nonzero()[:, 0]

    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.cross_entropy(model(batch["x"])[batch["pick"]], batch["y"][batch["pick"]])

    trial = trial_of(mlp(6, 3), [{"x": x, "y": y, "pick": seen}], loss)
    trial.validation_batches = lambda: iter([{"x": x, "y": y, "pick": others}])
    verdict = ask("splits-overlap", trial)
    assert verdict.outcome is outcome, verdict
    assert "`pick` picks for validation" in verdict.summary
