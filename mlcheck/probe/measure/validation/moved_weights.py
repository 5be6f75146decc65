"""Parameters that an evaluation of a trained model changes, and that the next training step goes on from.

Before training an averaged copy is what the model is, and may be put in its place unseen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from mlcheck.probe.measure.drive import Clock, repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModuleWatch, Names
from mlcheck.probe.measure.program_modules import held_modules
from mlcheck.probe.measure.training.gradients import named_parameters
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial

_STEPS = 6
_WAIT = 16


@dataclass(frozen=True, slots=True)
class MovedWeights:
    """`names` of parameters that are others after the evaluation, and still so when an optimizer steps next.

    Weights that are exchanged for a validation and put back at its end, or where the training step begins, are not.
    `beside` names those of a network beside the models that the next step asks, and that a second evaluation changes
    again: a copy may be brought up to date by the first.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 9

    names: tuple[str, ...]
    looked_at: int
    beside: tuple[str, ...] = ()

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if trial.evaluate_step is None or trial.validation_batches is None or not trial.owns_loop:
            raise NotMeasured("the trial has no evaluation step and loop of its own")
        if trial.end_evaluation is not None or not trial.repeats_batches:
            raise NotMeasured("a script comes to its evaluation by way of training steps, which change the weights too")
        held_out = next(iter(trial.validation_batches()), None)
        if held_out is None:
            raise NotMeasured("the validation data is empty")
        clock = Clock(min(3.0, seconds / 10))
        seed_all(0)
        for index, batch in enumerate(islice(repeated_batches(trial), _STEPS)):
            trial.train_step(batch, index)
            if not clock.left():
                break
        held = held_modules(trial)
        parameters, others = named_parameters(trial.models), named_parameters(held)
        changed = _changed_by(trial.evaluate_step, held_out, parameters + others)
        known = {id(parameter) for parameter in parameters}
        if not all(id(parameter) in known for parameter, _ in changed):
            again = {id(parameter) for parameter, _ in _changed_by(trial.evaluate_step, held_out, others)}
            changed = [pair for pair in changed if id(pair[0]) in known | again]
        with ModuleWatch() as watch:
            kept = _at_next_step(trial, changed, clock) if changed else []
        asked = {id(one) for call in watch.calls for one in call.module.parameters()}
        own, names = Names(trial.models), Names({**trial.models, **held})
        return cls(
            tuple(own.parameter(one) for one in kept if id(one) in known),
            len(parameters) + len(others),
            tuple(names.parameter(one) for one in kept if id(one) in asked - known),
        )


Pair = tuple[torch.Tensor, torch.Tensor]


def _changed_by(evaluate: Callable[[Any], Any], batch: Any, parameters: list[torch.Tensor]) -> list[Pair]:
    """Those that an evaluation changes, as they are and as they were."""
    before = [parameter.detach().clone() for parameter in parameters]
    evaluate(copied(batch))
    return [pair for pair in zip(parameters, before, strict=True) if not _same(*pair)]


def _at_next_step(trial: Trial, changed: list[Pair], clock: Clock) -> list[torch.Tensor]:
    """Those that are not what they were before the evaluation when an optimizer is about to step."""
    kept: list[torch.Tensor] | None = None

    def look(*_: Any) -> None:
        nonlocal kept
        if kept is None:
            kept = [parameter for parameter, before in changed if not _same(parameter, before)]

    hook = register_optimizer_step_pre_hook(look)
    try:
        for index, batch in enumerate(islice(repeated_batches(trial), _WAIT), _STEPS):
            trial.train_step(batch, index)
            if kept is not None or not clock.left():
                break
    finally:
        hook.remove()
    return kept or []


def _same(parameter: torch.Tensor, before: torch.Tensor) -> bool:
    return same_bits(parameter.detach(), before)
