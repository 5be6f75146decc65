"""What a model gets of labelled samples where the training step itself augments them, and evaluation does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor, nn

from mlcheck.probe.measure.drive import Clock, evaluated_batch, repeated_batches
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Arguments, ModuleWatch
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial

ENOUGH = 500
INPUT, LABEL = "input", "label"


@dataclass(frozen=True, slots=True)
class StepInputs:
    """Inputs as the model got them, each with the labels of its batch, which the one loss of the step was given.

    `place` is the tensor of the batch that was changed at random between the loader and the model.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 12

    batches: tuple[dict[str, Tensor], ...]
    place: str

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        clock, kept, samples, place = Clock(seconds / 4), list[dict[str, Tensor]](), 0, ""
        for index, batch in enumerate(repeated_batches(trial)):
            first = _entered(trial, lambda given, index=index: trial.train_step(given, index), batch, index)  # type: ignore[misc]
            if not index:
                again = _entered(trial, lambda given: trial.train_step(given, 0), batch, 1)
                place = _changed(batch, first, again)
                _require_plain_evaluation(trial)
            label = _label(batch, first)
            if first.input is None or label is None:
                raise NotMeasured("the loss of the training step is not given the labels of its batch alone")
            kept.append({INPUT: first.input, LABEL: label})
            samples += len(label)
            if samples >= ENOUGH or not clock.left():
                break
        return cls(tuple(kept), place)


@dataclass(slots=True)
class _Entered:
    """What the first of the models was given for its samples, and the targets of all losses."""

    input: Tensor | None
    targets: list[Tensor]


def _entered(trial: Trial, run: Callable[[Any], Any], batch: Any, seed: int) -> _Entered:
    models, found = set(trial.models.values()), _Entered(None, [])

    def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        tensors = [tensor for _, tensor in leaves((args, kwargs)) if tensor.is_floating_point() and tensor.ndim > 1]
        if found.input is None and module in models and len(tensors) == 1:
            found.input = tensors[0].detach().clone()
        return args, kwargs

    losses = LossWatch()
    with restored(trial), stilled(trial), losses, ModuleWatch(keep):
        seed_all(seed)
        run(copied(batch))
    found.targets = [call.target for call in losses.calls]
    return found


def _changed(batch: Any, one: _Entered, other: _Entered) -> str:
    """The tensor of the batch that the step changes, each time otherwise."""
    if one.input is None or other.input is None or one.input.shape != other.input.shape:
        raise NotMeasured("no model is given one tensor of numbers with a row for each sample")
    names = [name for name, tensor in leaves(batch) if tensor.is_floating_point() and tensor.shape == one.input.shape]
    if len(names) != 1 or same_bits(one.input, other.input):
        raise NotMeasured("the training step gives the model its batch as it is, or always changed alike")
    return names[0]


def _require_plain_evaluation(trial: Trial) -> None:
    step, batch = evaluated_batch(trial)
    one, other = (_entered(trial, step, batch, seed) for seed in (0, 1))
    if one.input is None or other.input is None or not same_bits(one.input, other.input):
        raise NotMeasured("evaluation changes its batch at random, too")


def _label(batch: Any, seen: _Entered) -> Tensor | None:
    """The one class a sample that all losses of a step were given, as the batch holds it."""
    if len(seen.targets) != 1 or seen.targets[0].is_floating_point() or seen.targets[0].ndim != 1:
        return None
    target = seen.targets[0]
    held = [tensor for _, tensor in leaves(batch) if not tensor.is_floating_point() and tensor.shape == target.shape]
    return target if any(bool((tensor == target).all()) for tensor in held) else None
