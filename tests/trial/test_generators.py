"""Seeding: the same draws as torch's own, also where torch can draw on other devices."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch

from mlcheck.trial import generators
from mlcheck.trial.generators import seed_all


def drawn() -> tuple[float, float, float]:
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_a_seed_gives_the_draws_that_each_library_gives_by_itself() -> None:
    seed_all(7)
    mine = drawn()
    random.seed(7)
    np.random.seed(7)
    torch.manual_seed(7)
    assert drawn() == mine


@pytest.mark.parametrize("has_devices", [True, False])
def test_other_devices_are_seeded_where_there_are_any(has_devices: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(generators, "_has_devices", lambda: has_devices)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
    monkeypatch.setattr(torch, "manual_seed", asked.append)
    seed_all(3)
    assert asked == ([3] if has_devices else [])
