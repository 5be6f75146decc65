"""Targets that lie some places away from their inputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, trial_on
from torch import Tensor
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.shifted import Shift, shifts

N = 300


def inputs() -> Tensor:
    return torch.randn(N, 4, generator=torch.Generator().manual_seed(0))


def judged(x: Tensor, y: Tensor) -> Shift:
    samples = [{"x": one, "y": other} for one, other in zip(x, y)]
    (found,) = shifts(samples, ["x"], ["y"])
    return found


TARGETS: dict[str, Callable[[Tensor], Tensor]] = {
    "numbers": lambda x: x[:, :2] + 0.3 * torch.randn(N, 2, generator=torch.Generator().manual_seed(1)),
    "one number": lambda x: x[:, 0] - x[:, 1],
    "classes": lambda x: (x[:, 0] > 0).long() + (x[:, 1] > 0).long(),
}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("places", [1, -2, 3])
def test_the_offset_is_found(kind: str, places: int) -> None:
    x = inputs()
    seen = judged(x, TARGETS[kind](x).roll(places, 0))
    assert seen.offset == places
    assert seen.own < 2.0
    assert seen.best > 8.0
    assert seen.next < seen.best / 2


@pytest.mark.parametrize("kind", TARGETS)
def test_targets_of_their_own_inputs(kind: str) -> None:
    x = inputs()
    assert judged(x, TARGETS[kind](x)).own > 8.0


@pytest.mark.parametrize(
    "target",
    [
        lambda x: torch.randn(N, generator=torch.Generator().manual_seed(5)),
        lambda x: TARGETS["one number"](x)[torch.randperm(N, generator=torch.Generator().manual_seed(5))],
        lambda x: torch.arange(N) // 100,  # in blocks, as files are
        lambda x: torch.arange(N).sin(),  # the next tells of this one, the input of none
    ],
)
def test_targets_of_no_input_nearby(target: Callable[[Tensor], Tensor]) -> None:
    assert judged(inputs(), target(inputs())).best < 8.0


def test_windows_of_a_series_share_their_targets_with_their_neighbours() -> None:
    series = torch.arange(N + 20.0).mul(0.1).sin() + 0.1 * torch.randn(
        N + 20, generator=torch.Generator().manual_seed(1)
    )
    assert judged(series.unfold(0, 10, 1)[:N], series[10 : N + 10]).own > 2.0


def test_what_cannot_be_compared() -> None:
    x = inputs()
    few = [{"x": one, "y": one[0]} for one in x[:50]]
    assert not shifts(few, ["x"], ["y"])
    ragged = [{"x": one[: 2 + k % 3], "y": one[0]} for k, one in enumerate(x)]
    assert not shifts(ragged, ["x"], ["y"])
    tokens = [{"x": one.long(), "y": one[0]} for one in x]
    assert not shifts(tokens, ["x"], ["y"])
    assert not shifts([{"x": one, "y": torch.tensor(1.0)} for one in x], ["x"], ["y"])


@pytest.mark.parametrize(("places", "outcome"), [(1, Outcome.WARN), (0, Outcome.PASS)])
def test_a_program_whose_targets_are_shifted(places: int, outcome: Outcome) -> None:
    x = torch.randn(N, 8, generator=torch.Generator().manual_seed(0))
    y = x[:, 0].roll(places)
    trial = trial_on(TensorDataset(x, y), model=mlp(out=1), loss=lambda m, b: F.mse_loss(m(b[0])[:, 0], b[1]))
    verdict = ask("labels-unrelated", trial)
    assert verdict.outcome is outcome, verdict.reason or verdict.summary
    if places:
        assert "agree in the `sample[1]` of the sample after it" in verdict.summary
