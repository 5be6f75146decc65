"""What the layers of the untrained model give out, on a few hundred samples, and what gradient comes back to them."""

from __future__ import annotations

import inspect
import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Arguments, ModuleWatch, Names
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import Trial

ROWS = 400
MOST_STEPS = 40
MOST_ROUNDS = 1000
_WEIGHTED = (nn.Linear, nn.modules.conv._ConvNd)
_KINDS = {
    F.relu: "relu",
    torch.relu: "relu",
    torch.relu_: "relu",
    torch.Tensor.relu: "relu",
    torch.Tensor.relu_: "relu",
    torch.tanh: "tanh",
    F.tanh: "tanh",
    torch.Tensor.tanh: "tanh",
    torch.sigmoid: "sigmoid",
    F.sigmoid: "sigmoid",
    torch.Tensor.sigmoid: "sigmoid",
}


@dataclass(slots=True)
class Units:
    """One nonlinearity behind one layer: in how many of `rows` rows each unit was active, and how much is saturated.

    `rows` are samples, times positions for convolutions and sequences. `saturated` is the share of tanh values
    beyond 0.99 and of sigmoid values within 0.005 of 0 or 1.
    """

    name: str
    kind: str
    place: Location
    rows: int = 0
    samples: int = 0
    active: Tensor | None = None
    saturated: float = 0.0
    values: int = 0


@dataclass(slots=True)
class Layer:
    """One linear or convolutional layer, in the order of the forward pass.

    `spread` is the root mean square of its output, `between` the share of its variance that lies between samples.
    `gradient` is the root mean square of the loss's derivative with respect to its output, over all samples.
    `gain` is how many times the power of its input its weights give out, for an input of independent values.
    `rounds` are the spreads by how often the layer had run in its pass, where it runs more than once.
    """

    name: str
    spread: list[float] = field(default_factory=list)
    between: list[float] = field(default_factory=list)
    gradient: list[float] = field(default_factory=list)
    rounds: list[list[float]] = field(default_factory=list)
    gain: float = 1.0


@dataclass(slots=True)
class Activations:
    """Units and layers of an untrained model over at least 400 rows, where the data has them."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 8

    units: list[Units]
    layers: list[Layer]
    samples: int
    optimizers: int
    precision: float

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        clock = Clock(min(4.0, seconds / 10))
        seen = _Observer(trial)
        seed_all(0)
        with stilled(trial), seen, ModuleWatch(seen.begin, seen.layer):
            for index, batch in enumerate(repeated_batches(trial)):
                trial.train_step(batch, index)
                if seen.samples >= ROWS or index + 1 >= MOST_STEPS or not clock.left():
                    break
        if not seen.layers:
            raise NotMeasured(
                "no linear or convolutional layer of the step gets a row for each sample that its model gets"
                if seen.others
                else "the training step runs no linear or convolutional layer of torch.nn"
            )
        return cls(
            seen.named_units(),
            [layer for layer in seen.layers.values() if layer.spread],
            seen.samples,
            len(trial.optimizers),
            seen.precision,
        )


class _Observer(TorchFunctionMode):
    """Names a nonlinearity by its module, or by the line that calls it."""

    def __init__(self, trial: Trial) -> None:
        super().__init__()
        self.units: dict[Any, Units] = {}
        self.layers: dict[nn.Module, Layer] = {}
        self.samples = 0
        self.others = False
        self.precision = 0.0
        self._names = Names(trial.models)
        self._behind = ""
        self._model = 0
        self._runs: Counter[nn.Module] = Counter()

    def begin(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        sizes = [tensor.shape[0] for _, tensor in leaves((args, kwargs)) if tensor.ndim]
        self._model = sizes[0] if sizes else 0
        self._runs.clear()
        self._behind = ""
        self.samples += self._model if not any(t.requires_grad for _, t in leaves((args, kwargs))) else 0
        return args, kwargs

    def named_units(self) -> list[Units]:
        """What serves several layers is named with the one it is behind."""
        served = Counter(units.name for units in self.units.values())
        for (_, _, behind), units in self.units.items():
            if served[units.name] > 1 and behind:
                units.name = f"{units.name} behind {behind}"
        return list(self.units.values())

    def layer(self, module: nn.Module, output: Any) -> None:
        kind = {nn.ReLU: "relu", nn.Tanh: "tanh", nn.Sigmoid: "sigmoid"}.get(type(module))
        if kind and isinstance(output, Tensor):
            self._see(module, self._names.module(module), kind, output)
        if next(module.parameters(recurse=False), None) is not None:
            self._behind = self._names.path(module)
        if not isinstance(module, _WEIGHTED) or not isinstance(output, Tensor) or not self._names.knows(module):
            return
        values = output.detach().float()
        if values.shape[0] != self._model or values.shape[0] < 2:
            self.others = True
            return
        layer = self.layers.setdefault(module, Layer(self._names.module(module), gain=_gain(module)))
        total = float(values.pow(2).mean())
        between = float(values.var(0, correction=0).mean())
        layer.spread.append(math.sqrt(total))
        self._round(layer, self._runs[module])
        self._runs[module] += 1
        layer.between.append(between / total if total > 0 else 0.0)
        self.precision = max(self.precision, torch.finfo(output.dtype).eps)
        if output.requires_grad:
            keep = layer.gradient.append
            output.register_hook(lambda grad: keep(float(grad.float().pow(2).mean().sqrt())))  # type: ignore[no-untyped-call]

    @staticmethod
    def _round(layer: Layer, number: int) -> None:
        if number < MOST_ROUNDS:
            layer.rounds += [[] for _ in range(number + 1 - len(layer.rounds))]
            layer.rounds[number].append(layer.spread[-1])

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        kind = _KINDS.get(func)
        if kind and isinstance(result, Tensor) and not _within_activation():
            place = user_location()
            if place.path:
                self._see((place.path, place.line, result.shape[1:]), "", kind, result, place)
        return result

    def _see(self, key: Any, name: str, kind: str, output: Tensor, place: Location | None = None) -> None:
        if output.ndim < 2 or output.shape[0] != self._model:
            return
        values = output.detach()
        flat = values.movedim(1, -1) if values.ndim > 3 else values
        flat = flat.reshape(-1, flat.shape[-1])
        key = key, flat.shape[-1], self._behind  # one nn.ReLU, or line, may serve several layers
        units = self.units.setdefault(key, Units(name or str(place), kind, place or Location()))
        units.rows += flat.shape[0]
        units.samples += output.shape[0]
        if kind == "relu":
            fired = (flat > 0).sum(0)
            units.active = fired if units.active is None else units.active + fired
        else:
            far = (flat.abs() > 0.99) if kind == "tanh" else ((flat < 0.005) | (flat > 0.995))
            units.saturated = (units.saturated * units.values + float(far.sum())) / (units.values + far.numel())
            units.values += far.numel()


def _gain(module: nn.Linear | nn.modules.conv._ConvNd) -> float:
    weight = module.weight.detach().double()
    return float(weight.pow(2).mean().sqrt()) * math.sqrt(weight[0].numel())


def _within_activation() -> bool:
    """Whether one of torch's own modules (nn.ReLU) is calling: the module's output is seen itself."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_filename in _PASSED:
        frame = frame.f_back
    return frame is not None and frame.f_code.co_filename == nn.modules.activation.__file__


_PASSED = {__file__, F.__file__, torch.overrides.__file__}
