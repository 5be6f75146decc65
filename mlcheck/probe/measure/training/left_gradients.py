"""Gradients that an evaluation leaves behind, and whether the training step that follows goes along them.

The control is the same evaluation and the same step, with the gradients put back in between.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial

_SEED = 6
Gradients = list[tuple[nn.Parameter, Tensor | None]]


@dataclass(frozen=True, slots=True)
class LeftGradients:
    """How many of `parameters` have another gradient after an evaluation, and how many a step leaves otherwise then.

    `place` is where the evaluation calls backward.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 5

    parameters: int
    left: int
    misled: int
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        if trial.evaluate_step is None or trial.validation_batches is None:
            raise NotMeasured("the trial has no evaluation step of its own")
        if trial.end_evaluation is not None:
            raise NotMeasured("a script comes to its evaluation by way of training steps, which leave gradients too")
        held_out = next(iter(trial.validation_batches()), None)
        if held_out is None:
            raise NotMeasured("the validation data is empty")
        before, watch = list(_gradients(trial)), GradientWatch([])
        with restored(trial):
            with watch:
                trial.evaluate_step(copied(held_out))
            left = sum(not _same(parameter.grad, gradient) for parameter, gradient in before)
        place = watch.backwards[0].place if watch.backwards else Location()
        if not left:
            return cls(len(before), 0, 0, place)
        batch = first_batches(trial, 1)[0]
        put_back, kept = (_trained(trial, held_out, batch, before if clean else []) for clean in (True, False))
        misled = sum(
            not (_same(one, other) and _same(gradient, another))
            for (one, gradient), (other, another) in zip(put_back, kept, strict=True)
        )
        return cls(len(before), left, misled, place)


def _gradients(trial: Trial) -> Iterator[tuple[nn.Parameter, Tensor | None]]:
    for model in trial.models.values():
        for parameter in model.parameters():
            yield parameter, None if parameter.grad is None else parameter.grad.detach().clone()


def _trained(trial: Trial, held_out: Any, batch: Any, put_back: Gradients) -> list[tuple[Tensor, Tensor | None]]:
    """Weights and gradients after an evaluation and a training step, with these gradients put back in between."""
    assert trial.evaluate_step is not None
    with restored(trial):
        trial.evaluate_step(copied(held_out))
        for parameter, gradient in put_back:
            parameter.grad = None if gradient is None else gradient.clone()
        seed_all(_SEED)
        trial.train_step(copied(batch), 0)
        return [(parameter.detach().clone(), gradient) for parameter, gradient in _gradients(trial)]


def _same(one: Tensor | None, other: Tensor | None) -> bool:
    return one is other if one is None or other is None else same_bits(one.detach(), other.detach())
