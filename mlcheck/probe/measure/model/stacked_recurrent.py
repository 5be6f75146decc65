"""How much gradient gets to the first layer of recurrent layers that are stacked within one module."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import ClassVar, Self

from torch import Tensor, nn

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.simplified import stilled
from mlcheck.trial.trial import Trial

FEW = 4


@dataclass(frozen=True, slots=True)
class StackedRecurrent:
    """Of each module of several recurrent layers: the root mean square gradient of each layer's input weights."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 2

    gradients: dict[str, tuple[float, ...]]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        modules = [module for model in trial.models.values() for module in model.modules()]
        stacks = [module for module in modules if isinstance(module, nn.RNNBase) and module.num_layers >= FEW]
        if not stacks:
            raise NotMeasured(f"no module has {FEW} recurrent layers or more")
        names, found = Names(trial.models), {stack: [0.0] * stack.num_layers for stack in stacks}
        with stilled(trial), ExitStack() as hooks:
            for stack in stacks:
                for layer in range(stack.num_layers):
                    weight: Tensor = getattr(stack, f"weight_ih_l{layer}")
                    if weight.requires_grad:
                        hooks.callback(weight.register_hook(_keeping(found[stack], layer)).remove)  # type: ignore[no-untyped-call]
            trial.train_step(first_batches(trial, 1)[0], 0)
        return cls({names.module(stack): tuple(values) for stack, values in found.items() if all(values)})


def _keeping(kept: list[float], layer: int) -> Callable[[Tensor], None]:
    def keep(gradient: Tensor) -> None:
        kept[layer] += float(gradient.double().pow(2).mean().sqrt())

    return keep
