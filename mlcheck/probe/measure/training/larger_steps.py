"""Whether parameters that stay what they are do change at a much larger learning rate."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

import torch

from mlcheck.probe.measure.drive import repeated_batches
from mlcheck.probe.measure.simplified import with_rates
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_LARGER = 1e4


def moved_by_larger_steps(trial: Trial, parameters: list[torch.Tensor], steps: int) -> list[torch.Tensor]:
    """Those that change in as many steps at ten thousand times the learning rate: what moved them was rounded away."""
    if not parameters:
        return []
    before = [parameter.detach().clone() for parameter in parameters]
    moved: list[torch.Tensor] = []
    seed_all(1)
    with suppress(Exception), with_rates(trial, _LARGER), restored(trial):
        for index, batch in enumerate(islice(repeated_batches(trial), steps)):
            trial.train_step(batch, index)
        moved = [now for now, then in zip(parameters, before) if not torch.equal(now.detach(), then)]
    return moved
