"""What a script has made is told from what was there, however it was made and whoever freezes it."""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Iterator
from types import FrameType

import pytest
import torch
from torch import nn

from mlcheck.trial.planned import Planned
from mlcheck.trial.script.objects import Newcomers, _distinct, planned_under_way


@pytest.fixture(autouse=True)
def nothing_frozen() -> Iterator[None]:
    """What the whole run of tests has frozen is let go for each of these, and frozen again."""
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.collect()
    gc.freeze()


@pytest.fixture
def newcomers() -> Iterator[tuple[nn.Module, Newcomers]]:
    there = nn.Linear(2, 2)
    found = Newcomers()
    found.mark()
    yield there, found
    found.close()


def test_what_is_copied_is_new_and_what_was_there_is_not(newcomers: tuple[nn.Module, Newcomers]) -> None:
    there, found = newcomers
    made, copied = nn.Linear(2, 2), copy.deepcopy(there)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    assert {id(one) for one in found.all()} == {id(made), id(copied), id(optimizer)}
    found.mark()
    assert found.all() == []
    later = nn.Linear(2, 2)
    assert found.all() == [later]


def test_what_the_script_freezes_is_found_too(newcomers: tuple[nn.Module, Newcomers]) -> None:
    _, found = newcomers
    made = nn.Linear(2, 2)
    gc.freeze()
    later = nn.Linear(2, 2)
    assert {id(one) for one in found.all()} == {id(made), id(later)}


def test_what_an_ended_run_leaves_is_collected(newcomers: tuple[nn.Module, Newcomers]) -> None:
    _, found = newcomers
    held = nn.Linear(2, 2)
    held.__dict__["circle"] = held
    del held
    found.mark()
    assert gc.collect() == 0
    assert found.all() == []


class Meter(nn.Module):
    """As metrics are: its hash goes by its state, and `==` makes another of it."""

    def __init__(self) -> None:
        super().__init__()
        self.seen = 0

    def __hash__(self) -> int:
        return hash(self.seen)

    def __eq__(self, other: object) -> Meter:  # type: ignore[override]
        return Meter()


def test_objects_are_what_they_are_whatever_they_say_they_equal() -> None:
    there = Meter()
    begun = Meter.__new__(Meter)  # no state to tell a hash by: an error in its constructor, kept with its frames
    found = Newcomers()
    before = Meter()
    found.mark()
    there.seen = before.seen = 7
    made = Meter()
    assert [id(one) for one in found.all()] == [id(made)]
    found.close()
    del begun


def test_at_the_end_nothing_stays_frozen() -> None:
    Newcomers().close()
    assert gc.get_freeze_count() == 0


def test_what_was_frozen_before_stays_so_and_is_not_new() -> None:
    there = nn.Linear(2, 2)
    gc.freeze()
    found = Newcomers()
    made = nn.Linear(2, 2)
    assert found.all() == [made]
    found.close()
    assert gc.get_freeze_count()
    assert gc.is_tracked(there)


def test_of_an_optimizer_around_another_the_inner_one_is_followed() -> None:
    class Around(torch.optim.Optimizer):
        def __init__(self, base: torch.optim.Optimizer) -> None:
            super().__init__(base.param_groups, {})
            self.base = base

    inner, other = (torch.optim.SGD(torch.nn.Linear(2, 2).parameters(), lr=0.1) for _ in range(2))
    assert _distinct([Around(inner), inner, other]) == [inner, other]
    beside = Around(inner)
    beside.base = other
    assert _distinct([beside, other]) == [beside, other]


class Fitting:
    def __init__(self, epochs: int) -> None:
        self.epochs = epochs

    def fit(self) -> FrameType:
        return sys._getframe()


def fit(max_epochs: int, n_epochs: int) -> FrameType:
    assert max_epochs + n_epochs
    return sys._getframe()


def test_how_long_a_run_is_to_be_stands_in_its_functions_and_objects() -> None:
    assert planned_under_way([Fitting(7).fit()]) == Planned(7, "epochs", "the variable `epochs`")
    assert planned_under_way([fit(4, 4)]) == Planned(4, "epochs", "the variable `max_epochs`")
    assert planned_under_way([fit(40, 4)]) is None
    assert planned_under_way([fit(4, 4), Fitting(7).fit()]) is None
