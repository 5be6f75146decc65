"""Layers after layers with nothing that bends between them."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, on_classes, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome


def test_linear_after_linear() -> None:
    model = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.1), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 5))
    verdict = ask("linear-without-activation", on_classes(model))
    says(verdict, Outcome.WARN, "`0` (8 to 32) feeds `2` (32 to 32)")
    assert len(verdict.findings) == 1


@pytest.mark.parametrize("between", [nn.LayerNorm(3), nn.ReLU(), None], ids=("norm", "activation", "bottleneck"))
def test_a_bottleneck_or_something_between_passes(between: nn.Module | None) -> None:
    layers = [nn.Linear(8, 3), *([between] if between else []), nn.Linear(3, 5)]
    says(ask("linear-without-activation", on_classes(nn.Sequential(*layers))), Outcome.PASS)


@pytest.mark.parametrize(("between", "outcome"), [([nn.ReLU(True)], Outcome.PASS), ([], Outcome.WARN)])
def test_an_activation_in_place_before_dropout(between: list[nn.Module], outcome: Outcome) -> None:
    model = nn.Sequential(nn.Linear(8, 32), *between, nn.Dropout(0.5), nn.Linear(32, 5))
    assert ask("linear-without-activation", on_classes(model)).outcome is outcome


class Contrasted(nn.Module):
    """As for contrastive learning: the program calls the encoder and, with its embedding, the head."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 32))
        self.head = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 5))

    def forward(self, x: Tensor) -> Tensor:
        answers: Tensor = self.head(self.encoder(x))
        return answers


@pytest.mark.parametrize(("apart", "outcome"), [(True, Outcome.PASS), (False, Outcome.WARN)])
def test_an_embedding_that_the_program_gets_needs_no_activation(apart: bool, outcome: Outcome) -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        answers = model.head(model.encoder(batch[0])) if apart else model(batch[0])  # type: ignore[operator]
        return F.cross_entropy(answers, batch[1])

    verdict = ask("linear-without-activation", trial_of(Contrasted(), classes(8), loss))
    assert verdict.outcome is outcome, verdict.reason or verdict.summary


def test_a_projection_that_is_added_again_passes() -> None:
    class Skip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project, self.mix, self.head = nn.Linear(8, 32), nn.Linear(32, 32), nn.Linear(32, 5)

        def forward(self, x: Tensor) -> Tensor:
            x = self.project(x)
            return self.head(F.relu(x + self.mix(x)))

    says(ask("linear-without-activation", on_classes(Skip())), Outcome.PASS)


class Gated(nn.Module):
    """Residual branches behind a gate that begins closed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 5)
        self.branches = nn.ModuleList([nn.Sequential(nn.LayerNorm(16), *mlp(16, 16)) for _ in range(3)])
        self.gates = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for gate, branch in zip(self.gates, self.branches):
            x = x + gate * branch(x)
        return self.last(x)  # type: ignore[no-any-return]


STRAIGHT: dict[str, Any] = {
    "norms between": lambda: nn.Sequential(
        nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Linear(32, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.Linear(16, 5)
    ),
    "convolutions": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 6, 3), nn.BatchNorm1d(6), nn.Conv1d(6, 6, 3), nn.AvgPool1d(2),
        nn.Flatten(), nn.Linear(12, 5)
    ),
}  # fmt: skip


BENT: dict[str, Any] = {
    "gates that begin closed": Gated,
    "one activation": lambda: nn.Sequential(
        nn.Linear(8, 32), nn.BatchNorm1d(32), nn.Linear(32, 16), nn.BatchNorm1d(16), nn.PReLU(), nn.Linear(16, 5)
    ),
    "a pool of maxima": lambda: nn.Sequential(
        nn.Unflatten(1, (1, 8)), nn.Conv1d(1, 6, 3), nn.BatchNorm1d(6), nn.MaxPool1d(2), nn.Conv1d(6, 6, 3),
        nn.Flatten(), nn.Linear(6, 5)
    ),
    "sigmoids that leave next to nothing": lambda: nn.Sequential(
        nn.Linear(8, 16), nn.Sigmoid(), *(part for _ in range(12) for part in (nn.Linear(16, 16), nn.Sigmoid())),
        nn.Linear(16, 5)
    ),
    "a bottleneck behind a norm": lambda: nn.Sequential(nn.Linear(8, 3), nn.BatchNorm1d(3), nn.Linear(3, 5)),
    "a filter for each channel, then a mixture": lambda: nn.Sequential(
        nn.Unflatten(1, (2, 4)), nn.Conv1d(2, 2, 3, groups=2), nn.Conv1d(2, 5, 1), nn.AdaptiveAvgPool1d(1), nn.Flatten()
    ),
}  # fmt: skip


def pictured(*layers: nn.Module) -> nn.Module:
    """Layers on pictures of four by four that give eight channels, the largest of which counts."""
    return nn.Sequential(nn.Unflatten(1, (1, 4, 4)), *layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(8, 5))


def convolution(a: int, b: int, **options: Any) -> nn.Conv2d:
    return nn.Conv2d(a, b, 3, padding=1, **options)


class ResidualBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = convolution(8, 8), convolution(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.two(self.one(x).relu())  # type: ignore[no-any-return]


JOINED: dict[str, Any] = {
    "a norm between": lambda: pictured(convolution(1, 8), nn.BatchNorm2d(8), convolution(8, 8), nn.GroupNorm(2, 8)),
    "dropout between": lambda: pictured(convolution(1, 8), nn.Dropout2d(0.1), convolution(8, 8)),
}


APART: dict[str, Any] = {
    "in place": lambda: pictured(convolution(1, 8), nn.BatchNorm2d(8), nn.ReLU(inplace=True), convolution(8, 8)),
    "first and residual": lambda: pictured(convolution(1, 8), ResidualBlock()),
    "depthwise": lambda: pictured(convolution(1, 8), convolution(8, 8, groups=8)),
    "one direction each": lambda: pictured(nn.Conv2d(1, 8, (1, 3)), nn.Conv2d(8, 8, (3, 1))),
    "a narrow code": lambda: pictured(convolution(1, 4, stride=4), nn.Upsample(scale_factor=4), convolution(4, 8)),
    "a narrow code, read at once": lambda: pictured(convolution(1, 2, stride=4), convolution(2, 8), nn.ReLU()),
    "one of many": lambda: pictured(
        convolution(1, 8), nn.ReLU(), convolution(8, 8), nn.ReLU(), convolution(8, 8), nn.ReLU(), convolution(8, 8),
        nn.BatchNorm2d(8), convolution(8, 8),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JOINED)
def test_convolutions_without_an_activation_between(name: str) -> None:
    verdict = ask("linear-without-activation", trial_of(JOINED[name](), classes(16), cross_entropy))
    says(verdict, Outcome.WARN, "the convolution `1` feeds `3` with no activation between")


@pytest.mark.parametrize("name", APART)
def test_convolutions_that_something_keeps_apart(name: str) -> None:
    verdict = ask("linear-without-activation", trial_of(APART[name](), classes(16), cross_entropy))
    assert verdict.outcome in (Outcome.PASS, Outcome.SKIP), verdict.summary


@pytest.mark.parametrize("name", STRAIGHT)
def test_a_model_that_is_one_affine_function(name: str) -> None:
    verdict = ask("linear-without-activation", on_classes(STRAIGHT[name]()))
    says(verdict, Outcome.WARN, "no activation bends anything", "its 3 layers")


@pytest.mark.parametrize("name", BENT)
def test_models_that_bend_or_are_narrow(name: str) -> None:
    assert ask("linear-without-activation", on_classes(BENT[name]())).outcome is Outcome.PASS
