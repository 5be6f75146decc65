"""Random numbers of worker processes: shared by mistake, and drawn as torch means them to be."""

from __future__ import annotations

import random
import sys
from typing import Any

import numpy as np
import pytest
import torch
from data_programs import table
from probe_programs import ask, says, trial_on
from torch.utils.data import Dataset

from mlcheck.core.outcome import Outcome

RULE = "workers-draw-alike"


class Augmented(Dataset[Any]):
    """Noise from the named source."""

    def __init__(self, source: str) -> None:
        self._samples, self._source = table(), source
        self._own = torch.Generator().manual_seed(0) if source == "own generator" else None
        self._rng = np.random.default_rng(0)

    def __len__(self) -> int:
        return len(self._samples)

    def __getitem__(self, index: int) -> Any:
        x, y = self._samples[index]
        noise = {
            "torch": lambda: torch.randn(8),
            "numpy": lambda: torch.as_tensor(np.random.randn(8)),
            "python": lambda: random.random(),
            "own generator": lambda: torch.randn(8, generator=self._own),
            "own numpy generator": lambda: torch.as_tensor(self._rng.normal(size=8)),
            "index": lambda: torch.randn(8, generator=torch.Generator().manual_seed(index)),
        }[self._source]()
        return (x + noise).float(), y


def constant(_: int) -> None:
    np.random.seed(0)


def by_number(worker: int) -> None:
    np.random.seed(7 + worker)


def as_meant(_: int) -> None:
    np.random.seed(torch.initial_seed() % 2**32)


@pytest.mark.parametrize(
    ("source", "seeding", "outcome", "said"),
    [
        ("own numpy generator", None, Outcome.FAIL, "as the same 6 variants in the same order"),
        ("numpy", constant, Outcome.FAIL, "all loader workers draw the same random numbers"),
        ("numpy", by_number, Outcome.WARN, "every epoch repeats the random numbers"),
        ("torch", None, Outcome.PASS, ""),
        ("numpy", as_meant, Outcome.PASS, ""),
        ("index", None, Outcome.SKIP, "nothing random is in it"),
    ],
)
def test_where_noise_comes_from(source: str, seeding: Any, outcome: Outcome, said: str) -> None:
    says(ask(RULE, trial_on(Augmented(source), num_workers=2, worker_init_fn=seeding)), outcome, said)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("source", "outcome"),
    [
        pytest.param(
            "own generator",
            Outcome.FAIL,
            marks=pytest.mark.skipif(
                sys.version_info >= (3, 14), reason="torch cannot send a generator to a forkserver"
            ),
        ),
        ("python", Outcome.PASS),
    ],
)
def test_other_sources(source: str, outcome: Outcome) -> None:
    assert ask(RULE, trial_on(Augmented(source), num_workers=2, persistent_workers=True)).outcome is outcome


def test_a_loader_without_workers_is_left_alone() -> None:
    says(ask(RULE, trial_on(Augmented("own generator"))), Outcome.SKIP, "has no worker processes")
