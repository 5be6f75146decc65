"""Gradients added up over several batches beside those of one large batch, in float64.

What the joined batch gives is a weighted sum of what its parts give, where the loss is a mean: the weights tell whether
every batch counts by its size.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

from mlcheck.core.finding import Location
from mlcheck.core.plural import plural
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.training.clip_functions import clipping_by
from mlcheck.probe.measure.tree import batch_size
from mlcheck.trial.find import load_trial
from mlcheck.trial.generators import seed_all
from mlcheck.trial.reference import in_double, in_float64, joined_batch
from mlcheck.trial.sandbox import restored
from mlcheck.trial.stillness import still
from mlcheck.trial.trial import Trial

_SEED = 9
_MOST = 16


@dataclass(frozen=True, slots=True)
class Accumulated:
    """`weights` of the batches, which are of one size, in the gradient of their joined batch.

    `rest` is the relative part of that gradient that no weights explain, `noise` the distance of two equal steps.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    weights: tuple[float, ...]
    rest: float
    noise: float
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - some steps, whatever the limit
        source = trial.source
        if source is None or source.runs_by_itself:
            raise NotMeasured("the program runs its own loop, which cannot be given a joined batch")
        with restored(trial):
            every = _every(trial)
        exact = load_trial(source.entry, replace(source.options, device="cpu", dtype=torch.float64))
        batches = [in_double(batch) for batch in islice(exact.train_batches(), every)]
        sizes = [batch_size(batch) for batch in batches]
        if len(batches) < every or None in sizes or len(set(sizes)) > 1:
            raise inconclusive("the batches are not of one size")
        try:
            joined = joined_batch(batches)
        except (TypeError, ValueError, RuntimeError) as error:
            raise inconclusive(f"the batches cannot be joined to one ({error})") from None
        with still(exact), in_float64(), _unclipped():
            own = [_gradient(exact, [batch] * every) for batch in batches]
            again = _gradient(exact, [batches[0]] * every, _SEED + 1)
            goal = _gradient(exact, [joined] * every)
        weights, rest = _explained(own, goal)
        noise = float((again - own[0]).norm()) / (float(own[0].norm()) or 1.0)
        return cls(weights, rest, noise, Location(*trial.entry))


def _every(trial: Trial) -> int:
    """How many batches make one update."""
    steps: list[int] = []
    handle = register_optimizer_step_pre_hook(lambda *_: steps.append(taken))
    try:
        for taken, batch in enumerate(islice(trial.train_batches(), _MOST)):
            trial.train_step(batch, taken)
            if len(set(steps)) == 2:
                break
    finally:
        handle.remove()
    first = sorted(set(steps))
    if len(first) < 2 or first[1] - first[0] < 2:
        raise NotMeasured("every batch has its own update")
    return first[1] - first[0]


def _gradient(trial: Trial, batches: list[Any], seed: int = _SEED) -> Tensor:
    """What the first optimizer step is given after these batches."""
    kept: list[Tensor] = []

    def keep(optimizer: Any, _args: Any, _kwargs: Any) -> None:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        grads = [weight.grad if weight.grad is not None else torch.zeros_like(weight) for weight in weights]
        kept.append(torch.cat([grad.detach().double().reshape(-1) for grad in grads]))

    with restored(trial):
        handle = register_optimizer_step_pre_hook(keep)
        try:
            seed_all(seed)
            for index, batch in enumerate(batches):
                trial.train_step(batch, index)
        finally:
            handle.remove()
    if not kept:
        raise inconclusive(f"no optimizer step after {plural(len(batches), 'batch')}")
    return kept[0]


@contextmanager
def _unclipped() -> Iterator[None]:
    """Clipping shortens every gradient by a factor of its own, which is no matter of weights."""
    with clipping_by(lambda _: lambda *_args, **_named: None):
        yield


def _explained(own: list[Tensor], goal: Tensor) -> tuple[tuple[float, ...], float]:
    """The weights of a least-squares fit, and the relative part that is left."""
    matrix = torch.stack(own, dim=1)
    weights = torch.linalg.lstsq(matrix, goal.unsqueeze(1), driver="gelsd").solution.squeeze(1)
    rest = float((matrix @ weights - goal).norm()) / (float(goal.norm()) or 1.0)
    return tuple(float(weight) for weight in weights), rest
