"""The watch on losses: it keeps away from optimizers, whatever happens in their steps, and misses no loss."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import _get_current_function_mode_stack

from mlcheck.probe.measure.loss.losses import LossWatch


def trained(
    optimizer: Callable[..., torch.optim.Optimizer], **options: float
) -> tuple[nn.Linear, torch.optim.Optimizer]:
    model = nn.Linear(3, 2)
    return model, optimizer(model.parameters(), lr=0.1, **options)


def test_losses_before_and_after_a_step_are_seen() -> None:
    model, optimizer = trained(torch.optim.Adam)
    with LossWatch() as watch:
        for _ in range(2):
            F.cross_entropy(model(torch.randn(4, 3)), torch.tensor([0, 1, 0, 1])).backward()
            optimizer.step()
    assert [call.kind for call in watch.calls] == ["cross_entropy"] * 2
    assert not _get_current_function_mode_stack()


def test_losses_within_a_closure_are_seen() -> None:
    model, optimizer = trained(torch.optim.LBFGS, max_iter=3)
    x, y = torch.randn(4, 3), torch.randn(4, 2)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        return loss

    with LossWatch() as watch:
        optimizer.step(closure)
    assert len(watch.calls) > 1


class Broken(torch.optim.SGD):
    def step(self, closure: object = None) -> None:  # type: ignore[override]
        raise ArithmeticError("no step")


def test_a_step_that_raises_leaves_no_mode_behind() -> None:
    model, optimizer = trained(Broken)
    with LossWatch() as watch:
        with pytest.raises(ArithmeticError):
            optimizer.step()
        F.l1_loss(model(torch.randn(4, 3)), torch.randn(4, 2))
    assert not _get_current_function_mode_stack()
    with LossWatch() as watch:
        F.l1_loss(model(torch.randn(4, 3)), torch.randn(4, 2))
    assert [call.kind for call in watch.calls] == ["l1_loss"]
    assert not _get_current_function_mode_stack()


def test_another_mode_on_top_stays_there() -> None:
    model, optimizer = trained(torch.optim.SGD)
    with LossWatch() as watch, torch.device("cpu"):
        F.l1_loss(model(torch.randn(4, 3)), torch.randn(4, 2)).backward()
        optimizer.step()
        assert len(_get_current_function_mode_stack()) == 2
    assert len(watch.calls) == 1


def test_the_prediction_is_known_where_the_target_is_given_first() -> None:
    model, x, y = nn.Linear(3, 1), torch.randn(4, 3), torch.full((4, 1), 7.0)
    with LossWatch() as watch:
        F.mse_loss(y, model(x))
        F.mse_loss(model(x), y)
        F.binary_cross_entropy(torch.full((4, 1), 0.5), model(x).sigmoid())
    assert [call.target.mean().item() == 7 for call in watch.calls] == [True, True, False]
    assert watch.calls[2].input.mean().item() == 0.5
