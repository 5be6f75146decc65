"""A loss or metric that is a module of the program's own is no model: what it is given are no inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, mlp, says, trial_of, trial_on
from torch import Tensor, nn
from torch.utils.data import TensorDataset

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.loss.first_loss import FirstLoss


class Criterion(nn.Module):
    def forward(self, scores: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(scores, target)


class Terms(nn.Module):
    def forward(self, out: dict[str, Tensor], target: Tensor) -> dict[str, Tensor]:
        return {"class": F.cross_entropy(out["scores"], target), "size": out["scores"].pow(2).mean()}


class Accuracy(nn.Module):
    def forward(self, scores: Tensor, target: Tensor) -> Tensor:
        return (scores.argmax(1) == target).float().mean()


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.squared = nn.MSELoss()
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, values: Tensor, target: Tensor) -> Tensor:
        return self.squared(values, target) * self.scale


def by_class(model: nn.Module, batch: Any) -> Tensor:
    return Criterion()(model(batch[0]), batch[1])  # type: ignore[no-any-return]


def by_terms(model: nn.Module, batch: Any) -> Tensor:
    return sum(Terms()({"scores": model(batch[0])}, batch[1]).values())  # type: ignore[no-any-return]


def beside_a_metric(model: nn.Module, batch: Any) -> Tensor:
    scores = model(batch[0])
    Accuracy()(scores.detach(), batch[1])
    return F.cross_entropy(scores, batch[1])


@pytest.mark.parametrize("loss", [by_class, by_terms, beside_a_metric])
def test_labels_that_a_module_compares_are_no_inputs(loss: Callable[[nn.Module, Any], Tensor]) -> None:
    data = TensorDataset(torch.randn(320, 8, generator=torch.Generator().manual_seed(0)), torch.zeros(320).long())
    says(ask("labels-constant", trial_on(data, loss=loss)), Outcome.FAIL, "`batch[1]` is 0 in all of 320 samples")


def test_targets_stay_when_the_input_is_taken_away() -> None:
    x = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))
    batches, scaled = [(x, x[:, :1] + x[:, 1:2] ** 2)] * 3, Scaled()
    trial = trial_of(mlp(out=1), batches, lambda model, batch: scaled(model(batch[0]), batch[1]))
    says(ask("cannot-overfit-one-batch", trial), Outcome.PASS, "without its input it stays at")


class Pooled(nn.Module):
    def forward(self, hidden: Tensor, mask: Tensor) -> Tensor:
        return (hidden * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)


class OwnLoss(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(self.layers(x), y)


def test_what_a_layer_without_weights_or_a_model_with_its_own_loss_is_given_are_inputs() -> None:
    x, y = torch.randn(32, 6, 8), torch.randint(5, (32,))
    mask = (torch.rand(32, 6) < 0.7).float()
    mask[:, 0] = 1
    model, pool = mlp(), Pooled()
    pooled = trial_of(model, [(x, mask, y)] * 3, lambda m, b: F.cross_entropy(pool(m(b[0]), b[1]), b[2]))
    assert FirstLoss.measure(pooled, 10.0).inputs == ("0", "1")
    alone = trial_of(OwnLoss(), [(x[:, 0], y)] * 3, lambda m, b: m(b[0], b[1]))
    assert FirstLoss.measure(alone, 10.0).inputs == ("0", "1")
    front = nn.Flatten()
    plain = trial_of(mlp(48), [(x, y)] * 3, lambda m, b: F.cross_entropy(m(front(b[0])), b[1]))
    assert FirstLoss.measure(plain, 10.0).inputs == ("0",)
