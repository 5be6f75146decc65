"""What every module costs: parameters, floating-point operations, the bytes of its output, memory in training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from mlcheck.probe.measure.drive import exclusively_evaluating
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.model.model_calls import CapturedCall, capture
from mlcheck.probe.measure.model.training_memory import ModuleMemory, training_memory
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class ModuleSize:
    """A module without children. `flops` are for one forward pass of the batch, None where they were not counted.

    `flattens` is the shape of a sample whose numbers all enter a linear layer at once; `steps` are those of a
    recurrence.
    """

    name: str
    kind: str
    parameters: int
    flops: int | None
    output_bytes: int
    shape: tuple[int, ...]
    features: int = 0
    flattens: tuple[int, ...] = ()
    steps: int = 0


@dataclass(frozen=True, slots=True)
class ModelSize:
    """The first model that is called on a batch of `samples`. `parameters` counts shared ones once."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 5

    name: str
    samples: int
    parameters: int
    trained: int
    modules: tuple[ModuleSize, ...]
    memory: tuple[ModuleMemory, ...] = ()

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one pass, whatever the limit
        call = capture(trial)
        watch = _Sizes(call)
        parameters = list({id(p): p for p in call.module.parameters()}.values())
        with exclusively_evaluating(iter(trial.models.values())), _without_gradients(parameters), watch:
            call.replay()
        return cls(
            call.name,
            call.rows,
            sum(p.numel() for p in parameters),
            sum(p.numel() for p in parameters if p.requires_grad),
            tuple(watch.sizes()),
            training_memory(trial, call),
        )

    @property
    def flops(self) -> int:
        return sum(module.flops or 0 for module in self.modules)

    @property
    def uncounted(self) -> list[ModuleSize]:
        return [module for module in self.modules if module.flops is None]


@contextmanager
def _without_gradients(parameters: list[nn.Parameter]) -> Iterator[None]:
    """The counter follows modules by the graph, and stumbles over a view of a parameter made without one."""
    wanted = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in wanted:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in wanted:
            parameter.requires_grad_(True)


class _Sizes:
    """While entered, counts every operation and looks at what each module without children gets and gives."""

    def __init__(self, call: CapturedCall) -> None:
        self._model = call.module
        self._names = {module: name for name, module in call.module.named_modules() if not any(module.children())}
        self._flops: dict[nn.Module, int] = {}
        self._given: dict[nn.Module, Tensor] = {}
        self._made: dict[nn.Module, list[Tensor]] = {}
        self._shapes = {tuple(t.shape[1:]) for _, t in leaves((call.args, call.kwargs)) if t.ndim > 2}
        self._before: dict[nn.Module, int] = {}
        self._flattened: dict[nn.Module, tuple[int, ...]] = {}
        self._counter = FlopCounterMode(display=False)
        self._undo = ExitStack()

    def __enter__(self) -> None:
        for module in self._names:
            self._undo.callback(module.register_forward_pre_hook(self._begin).remove)
            self._undo.callback(module.register_forward_hook(self._end).remove)
        self._undo.enter_context(self._counter)

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def _begin(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        self._before[module] = self._counter.get_total_flops()
        given = next((tensor for _, tensor in leaves(args)), None)
        if given is not None:
            self._given.setdefault(module, given)
            if given.ndim == 2:
                self._flattened[module] = next((s for s in self._shapes if _numbers(s) == given.shape[1]), ())

    def _end(self, module: nn.Module, _: tuple[Any, ...], output: Any) -> None:
        self._flops[module] = self._flops.get(module, 0) + self._counter.get_total_flops() - self._before[module]
        tensors = [tensor for _, tensor in leaves(output)]
        self._made.setdefault(module, []).extend(tensors)
        self._shapes |= {tuple(t.shape[1:]) for t in tensors if t.ndim > 2}

    def sizes(self) -> Iterable[ModuleSize]:
        for module, name in self._names.items():
            if module not in self._flops:
                continue
            given, made = self._given.get(module), self._made[module]
            multiplies = any(p.ndim > 1 for p in module.parameters()) and not isinstance(module, nn.Embedding)
            counted: int | None = self._flops[module]
            steps = 0
            if isinstance(module, nn.RNNBase) and given is not None and given.ndim == 3:
                steps = given.shape[1 if module.batch_first else 0]
            yield ModuleSize(
                name or type(module).__name__,
                type(module).__name__,
                sum(p.numel() for p in module.parameters()),
                None if multiplies and not counted else counted,
                sum(tensor.numel() * tensor.element_size() for tensor in made),
                tuple(made[0].shape) if made else (),
                module.in_features if isinstance(module, nn.Linear) else 0,
                self._flattened.get(module, ()) if isinstance(module, nn.Linear) else (),
                steps,
            )


def _numbers(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())
