"""Whether the loss changes when a parameter does, gradient or not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import Trial

_MOST = 64
_NO_ROUNDING = 1e-4


def influences(
    trial: Trial, batch: Any, parameters: Sequence[Tensor], trained: Sequence[Tensor], share: float = 0.0
) -> list[bool | None]:
    """For each of the parameters; None where that cannot be told. `trained` are all that a step may change.

    A parameter is moved by about 1, or by a `share` of its own size, and then the loss must change by more than rounds.
    """
    reference = _losses_with(trial, batch, [], trained)
    if reference is None or _losses_with(trial, batch, [], trained) != reference:
        return [None] * len(parameters)  # another batch, or other random numbers: nothing to compare with
    found: list[bool | None] = []
    for parameter in parameters[:_MOST]:
        changed = _losses_with(trial, batch, [parameter], trained, share)
        found.append(None if changed is None else _differ(reference, changed, _NO_ROUNDING if share else 0.0))
    return found + [None] * (len(parameters) - len(found))


def deadlocked(trial: Trial, batch: Any, parameters: Sequence[Tensor], trained: Sequence[Tensor]) -> list[Tensor]:
    """Those of the parameters, all of them zeros, none of which moves the loss alone, where they do together."""
    if not 1 < len(parameters) <= _MOST:
        return []
    alone = influences(trial, batch, parameters, trained)
    still = [parameter for parameter, moves in zip(parameters, alone) if moves is False]
    reference, together = (_losses_with(trial, batch, moved, trained) for moved in ([], still))
    return still if len(still) > 1 and None not in (reference, together) and reference != together else []


def _differ(one: list[float], other: list[float], rounding: float) -> bool:
    if not rounding or len(one) != len(other):
        return one != other
    return any(not math.isclose(a, b, rel_tol=rounding) for a, b in zip(one, other))


def _losses_with(
    trial: Trial, batch: Any, perturbed: Sequence[Tensor], trained: Sequence[Tensor], share: float = 0.0
) -> list[float] | None:
    """The values backward was called on in one seeded step, with some parameters moved before it."""
    state = [(p, p.detach().clone()) for p in trained]
    buffers = [(b, b.detach().clone()) for model in trial.models.values() for b in model.buffers()]
    watch = GradientWatch([])
    seed_all(1)
    try:
        for parameter in perturbed:
            with torch.no_grad():
                size = share * float(parameter.square().mean().sqrt()) if share else 1.0
                drawn = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(2))
                parameter.add_(size * drawn.to(parameter))
        seed_all(1)
        with watch:
            trial.train_step(batch, 0)
        return [float(backward.root.sum()) for backward in watch.backwards]
    except Exception:  # the perturbation may take the program where it never goes
        return None
    finally:
        with torch.no_grad():
            for tensor, value in state + buffers:
                tensor.copy_(value)
