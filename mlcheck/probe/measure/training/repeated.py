"""The first steps of two runs that are seeded alike: where they part, if they do.

With an adapter that can construct the program again these are two starts; without, one start whose state is put
back. Weights, batches and results are compared bit by bit, in the order in which a run comes by them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.names import part_of
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial

_STEPS = 3
_SEED = 6

Trace = list[tuple[str, list[tuple[str, torch.Tensor]]]]


@dataclass(frozen=True, slots=True)
class Repeated:
    """`parting` is what differs first, as in `the initial weights`; empty where nothing does. `constructed`
    says that the program was constructed twice; `device` is where it ran.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 7

    parting: str
    what: str
    steps: int
    constructed: bool
    device: str
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        if not trial.repeats_batches:
            raise NotMeasured("the program draws its batches itself: it cannot be begun twice in one process")
        traces = [_trace(trial) for _ in range(2)]
        if len(traces[0]) < 2:
            raise inconclusive("the training data is empty")
        parting, what = _parting(*traces)
        constructed = trial.again is not None
        return cls(parting, what, _STEPS, constructed, trial.device.type, Location(*trial.entry))


def _trace(trial: Trial) -> Trace:
    """Weights, then batch and metrics of each step."""
    if trial.again is not None:
        return _run(trial.again(0, 1))
    with restored(trial):
        return _run(trial)


def _run(trial: Trial) -> Trace:
    seed_all(_SEED)
    weights = [(f"{name}.{key}", value) for name, model in trial.models.items() for key, value in _state(model)]
    trace: Trace = [("the initial weights", weights)]
    for index, batch in enumerate(islice(trial.train_batches(), _STEPS)):
        trace.append((f"batch {index + 1}", [(part_of("batch", name), value.clone()) for name, value in leaves(batch)]))
        metrics = trial.train_step(copied(batch), index)
        trace.append((f"the metrics of step {index + 1}", _numbers(metrics)))
    return trace


def _state(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, value.detach().clone()) for name, value in model.state_dict().items()]


def _numbers(metrics: Mapping[str, Any]) -> list[tuple[str, torch.Tensor]]:
    found = []
    for name, value in metrics.items():
        try:
            found.append((str(name), torch.as_tensor(value).detach().clone()))
        except (TypeError, ValueError, RuntimeError):
            continue
    return found


def _parting(one: Trace, other: Trace) -> tuple[str, str]:
    for (moment, mine), (_, theirs) in zip(one, other):
        if len(mine) != len(theirs):
            return moment, "their number"
        for (name, value), (_, again) in zip(mine, theirs):
            if not same_bits(value, again):
                return moment, name
    return ("", "") if len(one) == len(other) else ("the number of batches", "")
