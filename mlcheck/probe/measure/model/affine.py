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
from mlcheck.probe.measure.model.exact_model import ExactModel, outputs
from mlcheck.probe.measure.model.model_calls import capture
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.tree import leaves, map_tensors
from mlcheck.trial.reference import in_float64
from mlcheck.trial.trial import Trial

WARM_UP_STEPS = 4
ROUNDING = 1e-9
BETWEEN = (0.5, -3.0, 40.0)
STRONGER = 64.0
TELLING = 1e-6  # of the output: what moves less is lost in rounding, as behind many saturated layers
_WEIGHTED = (nn.Linear, nn.modules.conv._ConvNd)


@dataclass(frozen=True, slots=True)
class AffineModel:
    """`bends` is how far the outputs for points of a straight line are off a line, as a share of how far they move.

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
                start = _numbers(exact, exact.inputs)
            end = _numbers(exact, _between(exact.inputs, 1.0))
            layers = [module for module in exact.model.modules() if isinstance(module, _WEIGHTED) and module in ran]
            apart = [after - before for before, after in zip(start, end)]
            if not _size(apart) > TELLING * _size(start):
                raise NotMeasured("the model's output hardly moves between two samples: too little to see a bend in")
            bends = max(_bend(exact, start, apart, share) for share in BETWEEN)
            depth = _depth(exact, layers, apart) if bends <= ROUNDING and layers else 0.0
        return cls(call.name, len(layers), bends, depth)


def _bend(exact: ExactModel, start: list[Tensor], apart: list[Tensor], share: float) -> float:
    there = _numbers(exact, _between(exact.inputs, share))
    off = [one - before - share * moved for before, moved, one in zip(start, apart, there, strict=True)]
    return _size(off) / (abs(share) * _size(apart))


def _numbers(exact: ExactModel, inputs: Any) -> list[Tensor]:
    return [tensor for tensor in outputs(exact.model, inputs) if tensor.is_floating_point()]


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
    start, end = _numbers(exact, exact.inputs), _numbers(exact, _between(exact.inputs, 1.0))
    wider = [after - before for before, after in zip(start, end)]
    return math.log((_size(wider) or 1e-300) / _size(apart), STRONGER)


def _size(tensors: list[Tensor]) -> float:
    return math.sqrt(sum(float(tensor.pow(2).sum()) for tensor in tensors))
