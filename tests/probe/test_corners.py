"""Boxes in the form of corners and in others, read as corners; four numbers that are no boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from probe_programs import ask, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import NotReached, Trial

RULE = "boxes-not-corners"


def overlap(a: Tensor, b: Tensor) -> Tensor:
    sides = (torch.minimum(a[:, 2:], b[:, 2:]) - torch.maximum(a[:, :2], b[:, :2])).clamp(min=0)
    areas = [(q[:, 2] - q[:, 0]) * (q[:, 3] - q[:, 1]) for q in (a, b)]
    return sides.prod(1) / (areas[0] + areas[1] - sides.prod(1)).clamp(min=1e-6)


def detecting(form: Callable[[Tensor, Tensor], Tensor], read: Callable[[Tensor, Tensor], Tensor], name: str) -> Trial:
    draws = torch.Generator().manual_seed(0)
    places, sizes = torch.rand(2, 16, 2, generator=draws)
    batches: list[Any] = [{"x": torch.randn(16, 8, generator=draws), name: form(places, 0.5 * sizes)}] * 2
    return trial_of(
        nn.Linear(8, 4), batches, lambda m, b: (m(b["x"]) - read(m(b["x"]).sigmoid(), b[name])[:, None]).pow(2).mean()
    )


def corners(place: Tensor, size: Tensor) -> Tensor:
    return torch.cat([place, place + size], 1)


def place_and_size(place: Tensor, size: Tensor) -> Tensor:
    return torch.cat([place, size], 1)


def converted(said: Tensor, given: Tensor) -> Tensor:
    return overlap(said, torch.cat([given[:, :2], given[:, :2] + given[:, 2:]], 1))


@pytest.mark.parametrize("name", ["boxes", "target"])
def test_width_and_height_read_as_a_corner(name: str) -> None:
    says(ask(RULE, detecting(place_and_size, overlap, name)), Outcome.FAIL, name, "negative")
    says(ask(RULE, detecting(corners, overlap, name)), Outcome.PASS, "sides of 0 and more")


def masked(said: Tensor, given: Tensor) -> Tensor:
    there = given.sum(1) > 0
    return overlap(said[there], given[there])


def numbered(said: Tensor, given: Tensor) -> Tensor:
    there = (given[:, 3] > 0).nonzero().squeeze(1)
    return overlap(said.index_select(0, there), given.index_select(0, there))


def joined(said: Tensor, given: Tensor) -> Tensor:
    return overlap(said, torch.cat([given[:7], given[7:]]))


def stacked(said: Tensor, given: Tensor) -> Tensor:
    return overlap(said, torch.stack([row.clone() for row in given]))


@pytest.mark.parametrize("read", [masked, numbered, joined, stacked])
def test_some_of_the_boxes_and_those_of_several_pictures(read: Callable[[Tensor, Tensor], Tensor]) -> None:
    says(ask(RULE, detecting(place_and_size, read, "box")), Outcome.FAIL, "negative")
    says(ask(RULE, detecting(corners, read, "box")), Outcome.PASS, "sides of 0 and more")


def reordered(said: Tensor, given: Tensor) -> Tensor:
    return overlap(said, given[:, torch.tensor([0, 2, 1, 3])])


def converted_and_masked(said: Tensor, given: Tensor) -> Tensor:
    there = given.sum(1) > 0
    return converted(said[there], given[there])


def test_columns_in_another_order_are_no_corners() -> None:
    assert ask(RULE, detecting(place_and_size, reordered, "box")).outcome is Outcome.SKIP
    assert ask(RULE, detecting(place_and_size, converted_and_masked, "box")).outcome is Outcome.SKIP


def test_boxes_that_are_converted_first_and_numbers_that_are_no_boxes() -> None:
    assert ask(RULE, detecting(place_and_size, converted, "boxes")).outcome is Outcome.SKIP
    differences = detecting(place_and_size, lambda _, given: (given[:, 2:] - given[:, :2]).sum(1), "features")
    assert ask(RULE, differences).outcome is Outcome.SKIP


def test_the_step_is_judged_where_no_evaluation_is_reached() -> None:
    def far() -> Iterator[Any]:
        raise NotReached("the program trains for hours before it evaluates")
        yield

    for form, outcome in ((place_and_size, Outcome.FAIL), (corners, Outcome.PASS)):
        trial = detecting(form, overlap, "boxes")
        trial.validation_batches, trial.evaluate_step = far, lambda batch: {}
        assert ask(RULE, trial).outcome is outcome
