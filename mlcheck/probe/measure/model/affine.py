"""Whether a model as a whole is an affine function of what it is given, however many layers it has."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.exact_model import ExactModel, distance, outputs
from mlcheck.probe.measure.model.model_calls import capture
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.reference import in_float64
from mlcheck.trial.trial import Trial

WARM_UP_STEPS = 4
ROUNDING = 1e-9
BETWEEN = (0.5, -3.0, 40.0)
STRONGER = 64.0
_WEIGHTED = (nn.Linear, nn.modules.conv._ConvNd)


@dataclass(frozen=True, slots=True)
class AffineModel:
    """`bends` is how far the outputs for points of a straight line are off a line, as a share of the outputs' norm.

    `layers` are linear and convolutional ones that ran, `depth` how many follow one another: the power with which the
    output grows when all their weights do. A few steps of training come first: a gate may begin closed.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 14

    model: str
    layers: int
    bends: float
    depth: float

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        for index, batch in enumerate(first_batches(trial, WARM_UP_STEPS)):
            trial.train_step(batch, index)
        call = capture(trial)
        given = [tensor for _, tensor in leaves((call.args, call.kwargs)) if tensor.is_floating_point()]
        if not given or call.rows < 2:
            raise NotMeasured("the model takes no numbers that could lie between two others")
        with in_float64(), torch.no_grad():
            exact = ExactModel.of(call)
            ran: set[nn.Module] = set()
            with ModuleWatch(observe=lambda module, _: ran.add(module)):
                start = outputs(exact.model, exact.inputs)
            end = outputs(exact.model, _between(exact.inputs, 1.0))
            layers = [module for module in exact.model.modules() if isinstance(module, _WEIGHTED) and module in ran]
            apart = [after - before for before, after in zip(start, end) if before.is_floating_point()]
            if not any(bool(part.abs().max() > 0) for part in apart if part.numel()):
                raise NotMeasured("the model's output is the same for all samples")
            bends = max(_bend(exact, start, end, share) for share in BETWEEN)
            depth = _depth(exact, layers, apart) if bends <= ROUNDING and layers else 0.0
        return cls(call.name, len(layers), bends, depth)


def _bend(exact: ExactModel, start: list[Tensor], end: list[Tensor], share: float) -> float:
    straight = [before + share * (after - before) for before, after in zip(start, end)]
    return distance(straight, outputs(exact.model, _between(exact.inputs, share)))


def _between(inputs: Any, share: float) -> Any:
    """Each sample that far on the way to the one before it."""

    def move(tensor: Tensor) -> Tensor:
        return tensor + share * (tensor.roll(1, 0) - tensor) if tensor.is_floating_point() and tensor.ndim else tensor

    return map_tensors(inputs, move)


def _depth(exact: ExactModel, layers: Sequence[nn.Module], apart: list[Tensor]) -> float:
    for layer in layers:
        weight = layer.weight
        if isinstance(weight, Tensor):
            weight.mul_(STRONGER)
    start, end = outputs(exact.model, exact.inputs), outputs(exact.model, _between(exact.inputs, 1.0))
    wider = [after - before for before, after in zip(start, end) if before.is_floating_point()]
    return math.log(_size(wider) / _size(apart), STRONGER)


def _size(tensors: list[Tensor]) -> float:
    return math.sqrt(sum(float(tensor.double().pow(2).sum()) for tensor in tensors)) or 1e-300
