"""Clipping that limits nothing, and weights that are held still and decay."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, fails, mlp, says, trial_of
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial

CLIP = "clip-misplaced"
Words = tuple[str, ...]


def clipping(*order: str, most: float = 0.1, clip: Callable[..., object] = nn.utils.clip_grad_norm_) -> Trial:
    """A loop of these words in order; `micro` is a batch whose gradient is only added."""
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(batch: object, _: int) -> dict[str, Tensor]:
        loss = cross_entropy(model, batch)
        for word in order:
            if word == "zero":
                optimizer.zero_grad()
            elif word == "micro":
                cross_entropy(model, batch).backward()
            elif word == "backward":
                loss.backward()
            elif word == "step":
                optimizer.step()
            else:
                clip(model.parameters(), most)
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, optimizer, step=step)


@pytest.mark.parametrize("order", [("zero", "backward", "step", "clip"), ("backward", "step", "clip", "zero")])
def test_what_was_applied_is_clipped_in_vain(order: Words) -> None:
    verdict = fails(CLIP, clipping(*order))
    assert "after the step that applied them" in verdict.findings[0].message
    assert verdict.findings[0].location.symbol == "clipping.step"


def test_what_is_not_there_is_clipped_in_vain() -> None:
    verdict = fails(CLIP, clipping("zero", "clip", "backward", "step"))
    assert "where there are none" in verdict.findings[0].message


def test_a_function_imported_by_name_is_seen_too() -> None:
    fails(CLIP, clipping("zero", "backward", "step", "clip", clip=clip_grad_norm_))


def test_values_are_clipped_in_vain_too() -> None:
    fails(CLIP, clipping("zero", "backward", "step", "clip", clip=lambda *given: nn.utils.clip_grad_value_(*given)))


@pytest.mark.parametrize(
    "order",
    [
        ("zero", "backward", "clip", "step"),
        ("backward", "clip", "step", "zero"),
        ("zero", "micro", "clip", "backward", "step"),
        ("zero", "backward", "clip", "step", "clip"),
        ("zero", "backward", "clip", "clip", "step"),
    ],
)
def test_what_is_still_to_be_applied_is_clipped(order: Words) -> None:
    assert ask(CLIP, clipping(*order)).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("most", "clip", "outcome"),
    [
        (0.1, nn.utils.clip_grad_norm_, Outcome.WARN),
        (1e3, nn.utils.clip_grad_norm_, Outcome.PASS),
        (float("inf"), nn.utils.clip_grad_norm_, Outcome.SKIP),
    ],
)
def test_what_is_clipped_before_more_is_added(most: float, clip: Callable[..., object], outcome: Outcome) -> None:
    verdict = ask(CLIP, clipping("zero", "micro", "clip", "backward", "clip", "step", most=most, clip=clip))
    assert verdict.outcome is outcome, verdict
    assert ("before more is added" in verdict.summary) is (outcome is Outcome.WARN)


@pytest.mark.parametrize("ends", [(3,), (3, 4)])
def test_an_update_in_four_batches_that_are_clipped_each(ends: tuple[int, ...]) -> None:
    """An epoch of five batches ends in an update of one."""
    trial = clipping()
    (model,), (optimizer,) = trial.models.values(), trial.optimizers.values()

    def step(batch: object, index: int) -> dict[str, Tensor]:
        loss = cross_entropy(model, batch) / 4
        loss.backward()
        clip_grad_norm_(model.parameters(), 0.01)
        if index % (ends[-1] + 1) in ends:
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.detach()}

    trial.train_step = step  # type: ignore[assignment]
    says(ask(CLIP, trial), Outcome.WARN, "before more is added")


def test_the_norm_alone_may_be_asked_for_after_the_step() -> None:
    says(
        ask(CLIP, clipping("zero", "backward", "step", "clip", most=float("inf"))),
        Outcome.SKIP,
        "no gradient is clipped",
    )


def test_without_clipping_there_is_nothing_to_say() -> None:
    says(ask(CLIP, clipping("zero", "backward", "step")), Outcome.SKIP, "no gradient is clipped")


def holding(decay: float, how: str, optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.AdamW) -> Trial:
    """The first layer is held still by zeroing its gradients, or frozen, or trained."""
    model = mlp()
    body = list(model[0].parameters())
    for parameter in body:
        parameter.requires_grad_(how != "frozen")
    stepping = optimizer(model.parameters(), lr=0.01, weight_decay=decay)

    def step(batch: object, _: int) -> dict[str, Tensor]:
        stepping.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        for parameter in body if how != "trained" else ():
            if how == "dropped":
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()
        stepping.step()
        return {"loss": loss.detach()}

    return trial_of(model, classes(8), cross_entropy, stepping, step=step)


@pytest.mark.parametrize("optimizer", [torch.optim.AdamW, torch.optim.SGD, torch.optim.Adam])
def test_weights_held_still_by_zeroed_gradients_decay(optimizer: Callable[..., torch.optim.Optimizer]) -> None:
    verdict = ask("weight-decay-misplaced", holding(0.05, "zeroed", optimizer))
    says(verdict, Outcome.WARN)
    assert "`0.weight`, `0.bias` have their gradients zeroed" in verdict.findings[0].message


def test_without_decay_they_stay() -> None:
    says(ask("weight-decay-misplaced", holding(0.0, "zeroed")), Outcome.PASS, "stay as they are")


def test_gradients_that_are_dropped_spare_the_decay() -> None:
    says(ask("weight-decay-misplaced", holding(0.05, "dropped")), Outcome.PASS, "stay as they are")


@pytest.mark.parametrize("how", ["frozen", "trained"])
def test_frozen_and_trained_weights_are_none_of_its_matters(how: str) -> None:
    says(ask("weight-decay-misplaced", holding(0.05, how)), Outcome.SKIP)
