"""Whether a script that draws its own batches draws the same again."""

from __future__ import annotations

import random

import numpy as np
import torch

from mlcheck.trial.script.calls import watched_calls
from mlcheck.trial.script.driver import Driver
from mlcheck.trial.script.requests import Turn
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import NotReached

_STEPS = 3


def repeats_batches(driver: Driver) -> bool:
    """Whether a training step gets the same batch again from the same random numbers; the script is led elsewhere."""
    seen: list[list[torch.Tensor]] = []
    progress = driver.snapshot()
    try:
        with watched_calls(lambda tensors: seen[-1].extend(tensors)):
            for _ in range(_STEPS):  # what the first step gets may have been drawn before
                torch.manual_seed(0)
                random.seed(0)
                np.random.seed(0)
                seen.append([])
                driver.train_step(Turn(0), 0)
    except NotReached:  # it calls no module, or has no third step
        return False
    finally:
        driver.begin_anew()
        driver.restore(progress)
    _, one, other = seen
    return bool(one) and len(one) == len(other) and all(same_bits(a, b) for a, b in zip(one, other))
