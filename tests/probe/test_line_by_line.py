"""A failing step, told line by line: by torchsnooper, by pysnooper alone, by nobody."""

from __future__ import annotations

import sys
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from probe_programs import ask, classes, cross_entropy, mlp, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.training import line_by_line
from mlcheck.probe.measure.training.line_by_line import told_line_by_line
from mlcheck.probe.measure.values import told

Pair = namedtuple("Pair", "x mask")


class Divides(nn.Module):
    """NaN in the third of four lines; a mask of -inf before it is meant."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.layer(x)
        mask = torch.full((5,), float("-inf"))
        parts = {"low": torch.minimum(hidden, mask * 0 + 1), "rest": [hidden / (hidden - hidden)]}
        return parts["low"] + parts["rest"][0].nan_to_num() + parts["rest"][0] * 0


def line_of(code: str) -> int:
    with open(__file__, encoding="utf-8") as file:
        return next(number for number, line in enumerate(file, 1) if line.strip().startswith(code))


def test_the_first_line_that_goes_wrong_is_found() -> None:
    account = told_line_by_line(lambda: Divides()(torch.randn(4, 8)))
    assert account
    assert account.tool == "torchsnooper"
    assert account.place.line == line_of("parts = {")
    assert account.source.startswith("parts = {")
    assert any("<-- the first value" in line for line in account.lines)
    assert any("mask = (5,) float32 cpu, 5 -inf" in line for line in account.lines)
    assert sys.gettrace() is None or "coverage" in repr(sys.gettrace())


def test_a_tensor_is_summed_up_again_only_after_it_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(line_by_line, "told", lambda value: asked.append(value) or told(value))

    def step() -> None:
        table, other = torch.ones(3), 1
        other += 1
        table.mul_(float("nan"))
        other += 1

    account = told_line_by_line(step)
    assert account
    assert account.source == 'table.mul_(float("nan"))'
    assert len([value for value in asked if isinstance(value, Tensor)]) == 2


@pytest.mark.parametrize("absent", [("torchsnooper",), ("torchsnooper", "pysnooper")])
def test_packages_that_are_not_installed(absent: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in absent:
        monkeypatch.setitem(sys.modules, name, None)
    account = told_line_by_line(lambda: Divides()(torch.randn(4, 8)))
    if "pysnooper" in absent:
        assert account is None
    else:
        assert account
        assert account.tool == "pysnooper"
        assert account.place.line == line_of("parts = {")


def test_an_exception_ends_the_account() -> None:
    def step(batch: Tensor) -> None:
        wide = batch.repeat(1, 2)
        mlp(8)(wide)

    account = told_line_by_line(lambda: step(torch.randn(3, 8)))
    assert account
    assert not account.place.path
    assert any("wide = (3, 16) float32" in line for line in account.lines)
    assert "RuntimeError" in "".join(account.lines[-4:])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.tensor([1.0, float("nan"), float("inf")], dtype=torch.bfloat16), "1, 1 NaN, 1 inf"),
        ([{"a": (torch.tensor([float("nan")]),)}], "({a: ((1,) float32 cpu, 1 NaN)})"),
        (Pair(torch.zeros(2), None), "Pair(x=(2,) float32 cpu, 0, mask=None)"),
        (np.arange(4.0), "array (4,) float64 cpu, 0 to 3, mean 1.5"),
        (torch.aminmax(torch.arange(3)), "aminmax"),
        (torch.empty(0, 3), "(0, 3) float32 cpu"),
        (torch.ones(2, 2).to_sparse(), "(2, 2) float32 cpu"),
        (torch.tensor([1 + 1j]), "complex64"),
        (list(range(100)), "… 100 in all"),
        (mlp(), "Sequential(train)"),
        ("x" * 500, "…"),
        (object(), "object"),
    ],
)
def test_values_in_words(value: Any, said: str) -> None:
    assert said in told(value)
    assert len(told(value)) < 400


def test_a_value_that_cannot_be_looked_at_is_told_too() -> None:
    class Hostile(dict[str, int]):
        def __len__(self) -> int:
            raise OSError("the file is closed")

    assert told(Hostile(a=1)) == "Hostile (cannot be shown: OSError)"


def test_the_report_shows_the_step() -> None:
    model = Divides()
    verdict = ask("non-finite-gradient", trial_of(model, classes(8), cross_entropy))
    assert verdict.outcome is Outcome.FAIL
    assert verdict.figures[0].kind == "text"
    assert "parts = {" in verdict.figures[0].data["text"]


def test_a_step_that_raises_later_is_told_from_its_own_start() -> None:
    model, batches = mlp(), classes(8, batches=6)
    batches[4] = (batches[4][0][:, :7], batches[4][1])
    verdict = ask("later-step-breaks", trial_of(model, batches, cross_entropy))
    assert verdict.outcome is Outcome.FAIL
    assert "(32, 7) float32 cpu" in verdict.figures[0].data["text"]
    assert "RuntimeError" in verdict.figures[0].data["text"]
