"""Convolutions that feed one another with nothing between that bends: themselves, or through a norm or dropout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import DROPOUTS
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import Names
from mlcheck.probe.measure.tree import leaves
from mlcheck.trial.trial import Trial

_NORMS = {F.batch_norm, torch.batch_norm, F.group_norm, F.instance_norm}
_LOOKS = {"__get__", "size", "dim", "numel", "is_floating_point", "stride", "is_complex"}


@dataclass(frozen=True, slots=True)
class ConvolutionPair:
    """`numbers` are how many go into the first, from it into the second, and out of that."""

    first: str
    second: str
    numbers: tuple[int, int, int]

    @property
    def is_bottleneck(self) -> bool:
        return self.numbers[1] < min(self.numbers[0], self.numbers[2])


@dataclass(frozen=True, slots=True)
class ConvolutionPairs:
    """Of `layers` trained convolutions of one group whose kernels are wider than one number in every direction."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 5

    layers: int
    pairs: tuple[ConvolutionPair, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        layers = [m for model in trial.models.values() for m in model.modules() if _spreads(m)]
        if len(layers) < 2:
            raise NotMeasured("there are fewer than two convolutions")
        chains = _Chains(Names(trial.models))
        hooks = [layer.register_forward_pre_hook(chains.entered) for layer in layers]
        hooks += [layer.register_forward_hook(chains.left) for layer in layers]
        try:
            with chains:
                trial.train_step(first_batches(trial, 1)[0], 0)
        finally:
            for hook in hooks:
                hook.remove()
        return cls(len(chains.ran), tuple(dict.fromkeys(chains.pairs)))


def _spreads(module: nn.Module) -> bool:
    if not isinstance(module, nn.modules.conv._ConvNd) or module.groups != 1:
        return False
    return module.weight.requires_grad and all(size > 1 for size in module.kernel_size)


@dataclass(frozen=True, slots=True)
class _End:
    """A convolution's result, or what a norm made of it; `links` are all tensors on the way."""

    tensor: Tensor
    layer: nn.Module
    given: int
    made: int
    links: tuple[int, ...]


class _Chains(TorchFunctionMode):
    def __init__(self, names: Names) -> None:
        super().__init__()
        self.ran: set[nn.Module] = set()
        self._names = names
        self._ends: dict[int, _End] = {}
        self._entered: dict[nn.Module, _End] = {}
        self._found: list[tuple[_End, ConvolutionPair]] = []
        self._uses: Counter[int] = Counter()

    @property
    def pairs(self) -> list[ConvolutionPair]:
        """Those whose middle goes nowhere else, as into a residual connection or to another head."""
        return [pair for end, pair in self._found if all(self._uses[link] == 1 for link in end.links)]

    def entered(self, layer: nn.Module, args: tuple[Any, ...]) -> None:
        self.ran.add(layer)
        end = self._ends.get(id(args[0])) if args else None
        if end is not None and end.layer is not layer:
            self._entered[layer] = end

    def left(self, layer: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if not args or not isinstance(output, Tensor):
            return
        if (end := self._entered.pop(layer, None)) is not None:
            names = self._names.path(end.layer), self._names.path(layer)
            self._found.append((end, ConvolutionPair(*names, (end.given, end.made, output.numel()))))
        self._ends[id(output)] = _End(output, layer, args[0].numel(), output.numel(), (id(output),))

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if getattr(func, "__name__", "") not in _LOOKS:
            self._uses.update(id(tensor) for _, tensor in leaves([*args, *given.values()]) if id(tensor) in self._ends)
        result = func(*args, **given)
        end = self._ends.get(id(args[0])) if args else None
        if end is not None and isinstance(result, Tensor) and (func in _NORMS or func in DROPOUTS):
            self._ends[id(result)] = _End(result, end.layer, end.given, end.made, (*end.links, id(result)))
        return result
