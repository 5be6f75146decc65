"""Whether what a program rebuilds from its input is told to the layer that the input enters.

A latent that is cut off from its graph (a draw that is no reparametrised one, a detach, a trip through numpy) leaves an
encoder whose other gradients, as those of a divergence, hide that the rebuilding does not train it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.autograd_graph import graph_nodes
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModelCall, ModuleWatch, Names
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.probe.measure.tree import copied, leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

CHANGED = 1e-3
_PART = 0.1


@dataclass(frozen=True, slots=True)
class CutDecoder:
    """An output of the size of the input, made by `decoder` at `place`, that changes with the weights of `layer`, the
    first one, by `change` (relative), and has no gradient for them, while other terms of the loss have."""

    decoder: str
    layer: str
    change: float
    place: Location


@dataclass(frozen=True, slots=True)
class CutDecoders:
    """`outputs` are those of the size of the input, `found` the one of them that is cut off."""

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 5

    outputs: int
    found: CutDecoder | None

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - three steps, whatever the limit
        batch = first_batches(trial, 1)[0]
        seen = _Step(trial, batch)
        rebuilt = seen.rebuilt()
        if not rebuilt or seen.first is None:
            raise NotMeasured("nothing that the loss is made of has the size of the input")
        cut = [index for index in rebuilt if not seen.trains_first(index)]
        if len(cut) < len(rebuilt) or not seen.first_is_trained:
            return cls(len(rebuilt), None)
        change = _change(trial, batch, seen.first, seen, cut[0])
        call, names = seen.outputs[cut[0]][0], Names(trial.models)
        found = CutDecoder(names.module(call.module), names.module(seen.first), change, call.place)
        return cls(len(rebuilt), found if change > CHANGED else None)


@dataclass(slots=True)
class _Step:
    """One step that changes nothing: what its models were given and gave, and what backward was called on."""

    trial: Trial
    batch: Any
    first: nn.Module | None = None
    first_is_trained: bool = False
    outputs: list[tuple[ModelCall, Tensor]] = field(default_factory=list)
    _inputs: list[Tensor] = field(default_factory=list)
    _roots: list[set[Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        watch = ModuleWatch(observe=self._look)
        with restored(self.trial), stilled(self.trial), watch, GradientWatch([], self._keep):
            seed_all(0)
            self.trial.train_step(copied(self.batch), 0)
        calls = [call for call in watch.calls if call.returned]
        self._inputs = [
            tensor for call in calls[:1] for _, tensor in leaves((call.args, call.kwargs)) if tensor.is_floating_point()
        ]
        self.outputs = [(call, tensor) for call in calls for _, tensor in leaves(call.output)]

    def _look(self, module: nn.Module, _: Any) -> None:
        if self.first is None and torch.is_grad_enabled() and _own_weights(module):
            self.first = module

    def _keep(self, root: Tensor) -> None:
        self._roots.append(graph_nodes(root))
        if self.first is not None:
            self.first_is_trained = self.first_is_trained or _reaches(self._roots[-1], self.first)

    def rebuilt(self) -> list[int]:
        """Which outputs have the size of the input and are in a loss."""
        return [
            index
            for index, (_, tensor) in enumerate(self.outputs)
            if any(given.ndim > 1 and given.shape == tensor.shape for given in self._inputs)
            and any(tensor.grad_fn in nodes for nodes in self._roots)
        ]

    def trains_first(self, index: int) -> bool:
        return self.first is not None and _reaches(graph_nodes(self.outputs[index][1]), self.first)


def _own_weights(module: nn.Module) -> list[nn.Parameter]:
    return [weight for weight in module.parameters(recurse=False) if weight.requires_grad]


def _reaches(nodes: set[Any], module: nn.Module) -> bool:
    known = {id(weight) for weight in _own_weights(module)}
    return any(id(getattr(node, "variable", None)) in known for node in nodes)


def _change(trial: Trial, batch: Any, first: nn.Module, seen: _Step, index: int) -> float:
    """How much the output changes with the first weights, as a part of its size; 0 where it is never twice the same."""
    again = _Step(trial, batch)
    with restored(trial):
        seed_all(1)
        for weight in _own_weights(first):
            weight.data.add_(_PART * weight.data.abs().mean() * torch.randn_like(weight))
        moved = _Step(trial, batch)
    if not len(seen.outputs) == len(again.outputs) == len(moved.outputs):
        return 0.0
    as_is, twice, after = (step.outputs[index][1].detach().double() for step in (seen, again, moved))
    if after.shape != as_is.shape or not torch.equal(as_is, twice):
        return 0.0
    return float((after - as_is).norm() / as_is.norm().clamp_min(1e-12))
