"""What one training step makes of the rows of its batch: those of the models' inputs and outputs, and the gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.modules import Arguments, ModuleWatch
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class Moment:
    """Which step of an epoch it is, and from which random numbers."""

    index: int = 0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class RowTraces:
    """Tensors with a row for each sample, in the order of the calls; `gradients` came back to the outputs.

    `losses` are the calls of torch's own loss functions.
    """

    inputs: list[Tensor]
    outputs: list[Tensor]
    gradients: list[Tensor]
    place: Location
    losses: list[LossCall] = field(default_factory=list)

    @classmethod
    def of(cls, trial: Trial, batch: Any, size: int, moment: Moment) -> RowTraces:
        """Those of a step that changes no weight, without dropout."""
        found = cls([], [], [], Location())

        def enter(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
            found.inputs.extend(_in_rows((args, kwargs), size))
            return args, kwargs

        def leave(output: Any) -> Any:
            for _, tensor in leaves(output):
                if tensor.requires_grad and tensor.ndim and len(tensor) == size:
                    found.gradients.append(_gradient_of(tensor))
                    found.outputs.append(tensor.detach().clone())
            return output

        watch, losses = GradientWatch([]), LossWatch(keep_dropout=False)
        modules = ModuleWatch(intervene=enter, reply=leave)
        with restored(trial), stilled(trial), losses, watch, modules:
            seed_all(moment.seed)
            trial.train_step(copied(batch), moment.index)
        place = watch.backwards[0].place if watch.backwards else Location()
        return cls(found.inputs, found.outputs, found.gradients, place, losses.calls)


def changed_rows(mine: list[Tensor], theirs: list[Tensor]) -> set[int] | None:
    """The rows that are not the same in both; None where the two are of other shapes."""
    if [one.shape for one in mine] != [other.shape for other in theirs]:
        return None
    return {row for one, other in zip(mine, theirs) for row in range(len(one)) if not same_bits(one[row], other[row])}


def _in_rows(given: Any, size: int) -> list[Tensor]:
    return [tensor.detach().clone() for _, tensor in leaves(given) if tensor.ndim and len(tensor) == size]


def _gradient_of(tensor: Tensor) -> Tensor:
    """Filled when the gradient comes; zeros until then."""
    kept = torch.zeros_like(tensor)

    def keep(gradient: Tensor) -> None:
        kept.copy_(gradient)

    tensor.register_hook(keep)  # type: ignore[no-untyped-call]
    return kept
