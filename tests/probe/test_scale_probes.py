"""Scales of inputs and targets: one program with the fault each, and programs that only look like it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, mlp, says, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome


def fed(change: Any, model: nn.Module | None = None) -> Any:
    return trial_of(model or mlp(), [(change(x), y) for x, y in classes(8)], cross_entropy)


def one_wide(x: Tensor) -> Tensor:
    wide = x.clone()
    wide[:, 0] *= 10
    wide[:, 1:] /= 500
    return wide


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: 40 * x + 128, "go straight into `0 (Linear)`"),
        (lambda x: 1e-4 * x, "no larger than"),
        (one_wide, "differ in scale by"),
        (lambda x: (x.sigmoid() - 120) / 60, "all nearly the same number"),
    ],
    ids=("large", "small", "apart", "an offset"),
)
def test_inputs_of_another_scale(change: Any, words: str) -> None:
    says(ask("inputs-not-scaled", fed(change)), Outcome.WARN, words)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x,
        lambda x: x.sigmoid(),
        lambda x: (x > 1.5).float(),
        lambda x: (3 * x).round().clamp(0, 12),
        torch.ones_like,
        lambda x: 1 + x.sigmoid(),
    ],
    ids=("standard", "unit", "one-hot", "counts", "ones", "above one"),
)
def test_common_scales_pass(change: Any) -> None:
    says(ask("inputs-not-scaled", fed(change)), Outcome.PASS, "the data enters `0 (Linear)`")


def at_the_edge(x: Tensor, share: int = 16) -> Tensor:
    """The first feature is that of a pixel at the edge: the same in nearly all pictures, and hardly more in one."""
    seldom = x.clone()
    seldom[:, 0] = -0.4
    seldom[::share, 0] += 1e-3 * x[::share, 0]
    return seldom


def test_a_feature_that_seldom_leaves_its_value_has_no_scale_to_compare() -> None:
    says(ask("inputs-not-scaled", fed(at_the_edge)), Outcome.PASS, "the data enters `0 (Linear)`")
    often = fed(lambda x: at_the_edge(2 * x / 3, 1) * torch.tensor([0.1, *[3.0] * 7]))
    says(ask("inputs-not-scaled", often), Outcome.WARN, "differ in scale by")


def test_a_norm_before_the_first_layer_scales() -> None:
    trial = fed(lambda x: 40 * x + 128, nn.Sequential(nn.BatchNorm1d(8), *mlp()))
    assert ask("inputs-not-scaled", trial).outcome is Outcome.SKIP
    assert ask("inputs-not-scaled", SOUND["lstm"]()).outcome is Outcome.SKIP


def prices(scale: float) -> Any:
    batches = [(torch.randn(32, 8), scale * torch.rand(32, 1)) for _ in range(3)]
    return trial_of(mlp(8, 1), batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))


def test_targets_in_hundreds_of_thousands() -> None:
    says(ask("targets-not-scaled", prices(3e5)), Outcome.WARN, "the targets of mse_loss run from")
    says(ask("targets-not-scaled", prices(5.0)), Outcome.PASS)


def levels(middle: float, spread: float, offset: float = 0.0) -> Any:
    batches = [(torch.randn(32, 8), middle + spread * torch.randn(32)) for _ in range(3)]
    return trial_of(mlp(8, 1), batches, lambda model, batch: F.mse_loss(model(batch[0])[:, 0] + offset, batch[1]))


def test_targets_that_hardly_differ() -> None:
    twice = levels(-152 / 77, 1 / 77)
    says(ask("targets-not-scaled", twice), Outcome.WARN, "give or take 0.01", "standardised twice")
    for sound in (levels(-2.0, 0.1), levels(0.0, 0.01), levels(-2.0, 0.01, offset=-2.0)):
        says(ask("targets-not-scaled", sound), Outcome.PASS)


def test_a_model_that_scales_its_own_output_passes() -> None:
    def loss(model: nn.Module, batch: Any) -> Tensor:
        return F.mse_loss(12 * model(batch[0]) + 3000, batch[1])

    trial = trial_of(mlp(8, 1), [(torch.randn(32, 8), 3000 + 12 * torch.randn(32, 1)) for _ in range(3)], loss)
    says(ask("targets-not-scaled", trial), Outcome.PASS)


class Beside(nn.Module):
    """Numbers beside an embedding, as they are or divided first."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.embed, self.net, self.scale = nn.Embedding(9, 6), mlp(8, 5), scale

    def forward(self, kind: Tensor, numbers: Tensor) -> Tensor:
        return self.net(torch.cat([self.embed(kind), numbers / self.scale], dim=1))


def beside(size: float, scale: float = 1.0) -> Any:
    batches = [(torch.randint(9, (32,)), size * torch.rand(32, 2), torch.randint(5, (32,))) for _ in range(3)]
    return trial_of(Beside(scale), batches, lambda model, batch: F.cross_entropy(model(*batch[:2]), batch[2]))


def test_numbers_beside_an_embedding() -> None:
    says(ask("inputs-not-scaled", beside(4e4)), Outcome.WARN, "go straight into `net.0 (Linear)`")
    says(ask("inputs-not-scaled", beside(1.0)), Outcome.PASS, "the data enters `net.0 (Linear)`")
    assert ask("inputs-not-scaled", beside(4e4, scale=4e4)).outcome is Outcome.SKIP


def test_what_is_hidden_is_no_data_where_gradients_are_off() -> None:
    model = mlp()
    nn.init.normal_(model[0].weight, std=1e-5)
    nn.init.zeros_(model[0].bias)

    def loss(model: Any, batch: Any) -> Tensor:
        with torch.no_grad():
            model(batch[0])
        return F.cross_entropy(model(batch[0]), batch[1])

    trial = trial_of(model, [(torch.randn(32, 8), torch.randint(5, (32,))) for _ in range(3)], loss)
    says(ask("inputs-not-scaled", trial), Outcome.PASS, "the data enters `0 (Linear)`")


@pytest.mark.parametrize(("level", "outcome"), [(0.0, Outcome.PASS), (900.0, Outcome.WARN)])
def test_what_a_recurrent_layer_gets_packed(level: float, outcome: Outcome) -> None:
    class Packed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.out = nn.LSTM(3, 8, batch_first=True), nn.Linear(8, 5)

        def forward(self, x: Tensor, length: Tensor) -> Tensor:
            packed = nn.utils.rnn.pack_padded_sequence(x, length, batch_first=True, enforce_sorted=False)
            return self.out(self.lstm(packed)[1][0][0])

    x, length = torch.randn(6, 16, 7, 3), torch.randint(1, 8, (6, 16))
    batches = [((level + one, many), torch.randint(0, 5, (16,))) for one, many in zip(x, length)]
    trial = trial_of(Packed(), batches, lambda model, batch: F.cross_entropy(model(*batch[0]), batch[1]))
    says(ask("inputs-not-scaled", trial), outcome, "`lstm (LSTM)`")


class Tokens(nn.Module):
    """Each feature times a vector of its own, and the tokens' mean into a head."""

    def __init__(self, start: float = 0.3) -> None:
        super().__init__()
        self.weight = nn.Parameter(start * torch.randn(8, 16))
        self.head = nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head((x.unsqueeze(-1) * self.weight).mean(1))


class Times(nn.Module):
    """One number a sample, and frequencies that are learnt."""

    def __init__(self) -> None:
        super().__init__()
        self.frequency, self.head = nn.Parameter(torch.rand(16)), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.sin(x[:, :1] * self.frequency))


def test_a_product_with_a_parameter_is_a_first_layer_too() -> None:
    def large(x: Tensor) -> Tensor:
        return 400 * x + 128

    says(ask("inputs-not-scaled", fed(large, Tokens())), Outcome.WARN, "go straight into `weight`")
    assert ask("inputs-not-scaled", fed(large, Tokens(start=1e-3))).outcome is Outcome.SKIP
    assert ask("inputs-not-scaled", fed(lambda x: x, Tokens())).outcome is Outcome.SKIP
    assert ask("inputs-not-scaled", fed(large, Times())).outcome is Outcome.SKIP


class Normalising(nn.Module):
    def __init__(self, mean: float, deviation: float) -> None:
        super().__init__()
        self.net, self.mean, self.deviation = nn.Sequential(nn.Flatten(), mlp(32)), mean, deviation

    def forward(self, x: Tensor) -> Tensor:
        answer: Tensor = self.net((x - self.mean) / self.deviation)
        return answer


def pictures(raw: float, mean: float, deviation: float, model: nn.Module) -> Any:
    """Two channels of 4 by 4, of which the loader takes a mean and over a deviation, after `raw` steps a unit."""
    drawn = [torch.randint(0, 256, (16, 2, 4, 4)) / raw for _ in range(3)]
    return trial_of(model, [((x - mean) / deviation, torch.randint(5, (16,))) for x in drawn], cross_entropy)


@pytest.mark.parametrize(("raw", "mean", "deviation"), [(255.0, 0.13, 0.31), (1.0, 127.0, 74.0)], ids=("unit", "bytes"))
def test_pictures_that_are_normalised_twice(raw: float, mean: float, deviation: float) -> None:
    trial = pictures(raw, mean, deviation, Normalising(mean, deviation))
    says(ask("inputs-not-scaled", trial), Outcome.WARN, "is normalised twice", f"the mean {mean:g}")


@pytest.mark.parametrize(
    "numbers",
    [
        (255.0, 0.0, 1.0, 0.13, 0.31),
        (255.0, 0.0, 1.0, 0.5, 0.5),
        (1.0, 0.0, 1.0, 127.0, 74.0),
        (255.0, 0.13, 0.31, 0.0, 1.0),
        (255.0, 0.13, 0.31, -0.13 / 0.31, 1 / 0.31),
        (255.0, 0.13, 0.31, 0.2, 0.9),
        (251.3, 0.13, 0.31, 0.13, 0.31),
    ],
    ids=("model", "halves", "bytes", "loader", "back again", "other constants", "no grid"),
)
def test_pictures_that_are_normalised_once(numbers: tuple[float, ...]) -> None:
    raw, mean, deviation, *again = numbers
    says(ask("inputs-not-scaled", pictures(raw, mean, deviation, Normalising(*again))), Outcome.PASS)
