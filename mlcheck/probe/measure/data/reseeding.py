"""Whether reading a sample, or a training step, leaves the same random numbers behind, whatever there were before."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import NotReached, Trial

SAMPLES = 3


@dataclass(frozen=True, slots=True)
class Reseeding:
    """Generators that stand at one and the same place after each of several `samples` or `steps`, by name."""

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 3

    samples: tuple[str, ...]
    steps: tuple[str, ...]
    looked_at: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few reads, whatever the limit
        samples: tuple[str, ...] = ()
        steps: tuple[str, ...] = ()
        looked_at = 0
        loader = trial.loaders.get("training")
        if isinstance(loader, DataLoader) and not isinstance(loader.dataset, IterableDataset):
            dataset: Any = loader.dataset
            with suppress(Exception):  # told by the probes of single samples
                samples = _fixed([partial(dataset.__getitem__, index) for index in range(min(SAMPLES, len(dataset)))])
                looked_at += SAMPLES
        batches = first_batches(trial, 2)
        with suppress(Exception, NotReached), stilled(trial):
            steps = _fixed([partial(trial.train_step, copied(batch), index) for index, batch in enumerate(batches)])
            looked_at += len(batches)
        if not looked_at:
            raise NotMeasured("no sample is read by its index, and no step runs twice")
        return cls(samples, steps, looked_at)


def _fixed(actions: list[Callable[[], object]]) -> tuple[str, ...]:
    """Names of the generators that are at one place after all `actions`, each begun at a place of its own."""
    if len(actions) < 2:
        return ()
    found = []
    for seed, action in enumerate(actions, 11):
        seed_all(seed)
        action()
        found.append(_places())
    return tuple(name for name in found[0] if all(places[name] == found[0][name] for places in found))


def _places() -> dict[str, object]:
    return {
        "torch.manual_seed": torch.get_rng_state().numpy().tobytes(),
        "numpy.random.seed": repr(np.random.get_state(legacy=False)),
        "random.seed": random.getstate(),
    }
