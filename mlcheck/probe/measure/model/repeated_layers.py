"""Layers that a container holds several times over, one behind the other, and whether they are run so."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any, ClassVar, Self

from torch import nn

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial

_NEAR = 40  # operations between a layer's output and its next input: an activation, a norm, a residual sum


@dataclass(frozen=True, slots=True)
class RepeatedLayer:
    """Entries `first` to `first + times` of `container` are one object, with `parameters` numbers.

    `chained` is how often, in one training step, what it put out was what it took in next.
    """

    container: str
    kind: str
    first: int
    times: int
    parameters: int
    chained: int


@dataclass(frozen=True, slots=True)
class RepeatedLayers:
    """Those that learn, in every container of the models."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 2

    layers: tuple[RepeatedLayer, ...]
    containers: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        names = Names(trial.models)
        containers = {one: None for model in trial.models.values() for one in model.modules() if _is_container(one)}
        if not containers:
            raise NotMeasured("no model holds its layers in a ModuleList or a Sequential")
        found = [(names.path(container), *run) for container in containers for run in _runs(container)]
        chains = _chains(trial, {layer for *_, layer in found}) if found else {}
        return cls(
            tuple(
                RepeatedLayer(path, type(layer).__name__, first, times, _learning(layer), chains.get(layer, 0))
                for path, first, times, layer in found
            ),
            len(containers),
        )


def _is_container(module: nn.Module) -> bool:
    return isinstance(module, nn.ModuleList | nn.Sequential)


def _runs(container: nn.Module) -> Iterator[tuple[int, int, nn.Module]]:
    """Where an entry that learns stands several times in a row."""
    entries = list(container._modules.values())
    first = 0
    for _, group in groupby(entries, key=id):
        same = list(group)
        layer = same[0]
        if len(same) > 1 and layer is not None and _learning(layer):
            yield first, len(same), layer
        first += len(same)


def _learning(layer: nn.Module) -> int:
    return sum(parameter.numel() for parameter in layer.parameters() if parameter.requires_grad)


def _chains(trial: Trial, layers: set[nn.Module]) -> dict[nn.Module, int]:
    """How often each layer took in what it had put out just before, in a step."""
    last: dict[nn.Module, Any] = {}
    chained: dict[nn.Module, int] = {}

    def ran(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        given = [tensor.grad_fn for _, tensor in leaves((args, kwargs)) if tensor.grad_fn is not None]
        if layer in last and any(_reaches(node, last[layer]) for node in given):
            chained[layer] = chained.get(layer, 0) + 1
        last[layer] = {tensor.grad_fn for _, tensor in leaves(output)} - {None}

    hooks = [layer.register_forward_hook(ran, with_kwargs=True) for layer in layers]
    try:
        with stilled(trial):
            trial.train_step(first_batches(trial, 1)[0], 0)
    finally:
        for hook in hooks:
            hook.remove()
    return chained


def _reaches(node: Any, outputs: set[Any]) -> bool:
    """Whether what made an input is, or is made of, one of the outputs, a few operations on."""
    seen: set[Any] = set()
    waiting = [node]
    while waiting and len(seen) < _NEAR:
        node = waiting.pop(0)
        if node in outputs:
            return True
        if node is not None and node not in seen:
            seen.add(node)
            waiting += [parent for parent, _ in node.next_functions]
    return False
