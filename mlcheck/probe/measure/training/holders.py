"""Which optimizers hold a parameter, and at which learning rate."""

from __future__ import annotations

import torch

from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.trial.trial import Trial


def holders(parameter: torch.Tensor, trial: Trial, watch: GradientWatch) -> list[tuple[str, float]]:
    return [
        (title, float(group["lr"]))
        for title, optimizer in all_optimizers(trial, watch).items()
        for group in optimizer.param_groups
        if any(held is parameter for held in group["params"])
    ]


def all_optimizers(trial: Trial, watch: GradientWatch) -> dict[str, torch.optim.Optimizer]:
    """Those the trial names, and those that were seen to step besides."""
    named = dict(trial.optimizers)
    known = {id(optimizer) for optimizer in named.values()}
    others = [optimizer for key, optimizer in watch.optimizers.items() if key not in known]
    return {**named, **{f"{type(other).__name__} {index}": other for index, other in enumerate(others, 1)}}
