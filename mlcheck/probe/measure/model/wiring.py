"""How the layers of a model are joined: linear after linear, dropout, batch norm, attention weights."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.overrides import TorchFunctionMode

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches, length_of
from mlcheck.probe.measure.loss.losses import DROPOUTS
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.model.einsum_weights import summed_dimension, weights_of
from mlcheck.probe.measure.modules import ModuleWatch, Names
from mlcheck.probe.measure.place import user_location
from mlcheck.probe.measure.program_text import names_after_construction, program_text
from mlcheck.trial.trial import Trial

_SOFTMAX = {F.softmax, torch.softmax, Tensor.softmax}
_MATMUL = {torch.matmul, torch.bmm, Tensor.matmul, Tensor.bmm, Tensor.__matmul__}


_LOOKS = {"__get__", "size", "dim", "numel", "is_floating_point", "stride", "is_complex"}
_SEVERAL, _ALL = 4, 0.995
_MASKED = -5e3  # what a mask adds or fills in is below
_PASSING = {*DROPOUTS, Tensor.masked_fill, torch.masked_fill}


@dataclass(frozen=True, slots=True)
class LinearPair:
    """A linear layer that is fed by another one with nothing between that bends: widths are in, middle, out."""

    first: str
    second: str
    widths: tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class Attention:
    """A softmax whose result is multiplied as a matrix: the dimension it runs over, and the one that is summed.

    `rows` are those that choose among several keys, `single` the share of them that give all weight to one key, with
    scores that parameters made, and `spread` the standard deviation of these scores.
    """

    place: Location
    shape: tuple[int, ...]
    softmax: int
    summed: int
    rows: int = 0
    single: float = 0.0
    spread: float = 0.0

    @property
    def key(self) -> tuple[Location, tuple[int, ...], int, int]:
        return self.place, self.shape, self.softmax, self.summed


@dataclass(frozen=True, slots=True)
class Wiring:
    """What one training step shows of a model's structure. `dropouts` and `norms` are settings of modules that ran.

    `unfilled` are batch norms that the step ran in evaluation mode, with the statistics that they were made with,
    `unfilled_calls` where the program's own modules call batch norm so. `last_batch_lasts` says that statistics of the
    last batch alone would do, or would not stay: it is all the data, or something may set momenta later.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    linears: int
    pairs: tuple[LinearPair, ...]
    dropouts: tuple[tuple[str, float], ...]
    norms: tuple[tuple[str, float | None, bool], ...]
    attentions: tuple[Attention, ...]
    unfilled: tuple[str, ...] = ()
    unfilled_calls: tuple[Location, ...] = ()
    last_batch_lasts: bool = False

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        names, links = Names(trial.models), _Links()
        watch = ModuleWatch(observe=links.left)
        links.names = names
        modules = [module for model in trial.models.values() for module in model.modules()]
        links.modules_statistics = {id(module.running_mean) for module in modules if isinstance(module, _BatchNorm)}
        hooks = [m.register_forward_pre_hook(links.entered) for m in modules if isinstance(m, nn.Linear)]
        hooks += [m.register_forward_pre_hook(links.normalises) for m in modules if isinstance(m, _BatchNorm)]
        try:
            with watch, links:
                trial.train_step(first_batches(trial, 1)[0], 0)
        finally:
            for hook in hooks:
                hook.remove()
        links.handed = {id(call.output) for call in watch.calls if not isinstance(call.module, nn.Linear)}
        learning = {call.module for call in watch.modal if call.training}
        ran = watch.with_grad | watch.without_grad
        found = [(names.module(module), module) for model in trial.models.values() for module in model.modules()]
        used = [(name, module) for name, module in found if module in ran]
        return cls(
            linears=sum(isinstance(module, nn.Linear) for _, module in used),
            pairs=tuple(dict.fromkeys(links.pairs)),
            dropouts=tuple((name, float(m.p)) for name, m in used if isinstance(m, _DropoutNd)),
            norms=tuple(
                (name, links.momentum(m), m.track_running_stats) for name, m in used if isinstance(m, _BatchNorm)
            ),
            attentions=tuple({one.key: one for one in sorted(links.attentions, key=lambda one: one.single)}.values()),
            unfilled=tuple(name for name, m in used if m in watch.with_grad - learning and is_unfilled(m)),
            unfilled_calls=tuple(dict.fromkeys(place for place, *given in links.still_norms if _unfilled(*given))),
            last_batch_lasts=length_of(trial.loaders.get("training")) == 1 or _sets_momenta(trial),
        )


def _sets_momenta(trial: Trial) -> bool:
    names = names_after_construction(program_text(trial))
    return names is None or not names.isdisjoint(("momentum", "update_bn"))


def is_unfilled(module: nn.Module) -> bool:
    """Whether a batch norm's running statistics are of no batch."""
    if not isinstance(module, _BatchNorm) or module.running_mean is None or module.running_var is None:
        return False
    filled = module.num_batches_tracked is not None and int(module.num_batches_tracked) > 0
    return not filled and _unfilled(module.running_mean, module.running_var)


def _unfilled(mean: Tensor, variance: Tensor) -> bool:
    return not bool(mean.any()) and bool((variance == 1).all())


class _Links(TorchFunctionMode):
    """Follows the results of linear layers and softmaxes to where they are used next, through dropout only."""

    def __init__(self) -> None:
        super().__init__()
        self._found: list[tuple[int, LinearPair]] = []
        self.attentions: list[Attention] = []
        self.names: Names | None = None
        self.handed: set[int] = set()
        self._softmax: dict[int, tuple[Tensor, int, Location, tuple[int, float, float]]] = {}
        self._linear: dict[int, tuple[Tensor, nn.Linear]] = {}
        self._uses: Counter[int] = Counter()
        self._momenta: dict[nn.Module, list[float | None]] = {}
        self.still_norms: list[tuple[Location, Tensor, Tensor]] = []
        self.modules_statistics: set[int] = set()

    def left(self, module: nn.Module, output: Any) -> None:
        if isinstance(module, nn.Linear) and isinstance(output, Tensor):
            self._linear[id(output)] = (output, module)

    def entered(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        given = args[0] if args else None
        known = self._linear.get(id(given))
        if known is None or self.names is None or not isinstance(module, nn.Linear) or known[1] is module:
            return
        first = known[1]
        widths = (first.in_features, first.out_features, module.out_features)
        self._found.append((id(given), LinearPair(self.names.path(first), self.names.path(module), widths)))

    def normalises(self, norm: Any, _: tuple[Any, ...]) -> None:
        self._momenta.setdefault(norm, []).append(norm.momentum)

    def momentum(self, norm: _BatchNorm) -> float | None:
        """Of several that it ran with, one that learns and keeps: a second pass for one update leaves them alone."""
        ran = self._momenta.get(norm, [norm.momentum])
        return next((momentum for momentum in ran if momentum not in (0.0, 1.0)), ran[0])

    @property
    def pairs(self) -> list[LinearPair]:
        """Those whose middle goes nowhere else: a residual connection, or queries, keys and values, need it apart.

        What a model hands to the program may be wanted as it is, as an embedding is behind whose head it is trained.
        """
        return [pair for middle, pair in self._found if self._uses[middle] == 1 and middle not in self.handed]

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        given = kwargs or {}
        if getattr(func, "__name__", "") not in _LOOKS:
            self._uses.update(id(argument) for argument in args if id(argument) in self._linear)
        first = args[0] if args else None
        before = first._version if isinstance(first, Tensor) and id(first) in self._linear else 0
        result = func(*args, **given)
        if isinstance(first, Tensor) and id(first) in self._linear and func not in _PASSING:
            self._changed(first, before)
        if func in _SOFTMAX and isinstance(result, Tensor) and result.ndim >= 3:
            dim = given.get("dim", args[1] if len(args) > 1 else -1)
            if isinstance(dim, int):
                self._softmax[id(result)] = (result, dim % result.ndim, user_location(), _choice(first, result, dim))
        elif func in _PASSING and isinstance(result, Tensor):
            self._pass_on(first, result)
        elif func in _MATMUL and id(first) in self._softmax:
            self._weighs(first, self._softmax[id(first)][0].ndim - 1)
        elif func is torch.einsum and id(weights := weights_of(args)) in self._softmax:
            self._weighs(weights, summed_dimension(args, self._softmax[id(weights)][1]))
        elif func is F.batch_norm and torch.is_grad_enabled():
            self._normalised(*args, **given)
        return result

    def _weighs(self, weights: Any, summed: int | None) -> None:
        tensor, dim, place, choice = self._softmax[id(weights)]
        if summed is not None:
            self.attentions.append(Attention(place, tuple(tensor.shape), dim, summed, *choice))

    def _normalised(
        self,
        _input: Tensor,
        mean: Tensor | None,
        variance: Tensor | None,
        weight: Tensor | None = None,
        bias: Tensor | None = None,  # noqa: ARG002 - as torch.nn.functional.batch_norm takes them
        training: bool = False,
        momentum: float = 0.1,  # noqa: ARG002
        eps: float = 1e-5,  # noqa: ARG002
    ) -> None:
        """Keeps the statistics of a call that learns its weight, and goes by statistics of no module of torch."""
        learns = weight is not None and weight.requires_grad
        if training or not learns or mean is None or variance is None or id(mean) in self.modules_statistics:
            return
        self.still_norms.append((user_location(), mean, variance))

    def _changed(self, tensor: Tensor, before: int) -> None:
        """An activation in place leaves the tensor, and no linear layer's output."""
        if tensor._version != before:
            del self._linear[id(tensor)]

    def _pass_on(self, before: Any, after: Tensor) -> None:
        if id(before) in self._softmax:
            self._softmax[id(after)] = (after, *self._softmax[id(before)][1:])
        if id(before) in self._linear:
            self._linear[id(after)] = (after, self._linear[id(before)][1])


def _choice(scores: Any, weights: Tensor, dim: int) -> tuple[int, float, float]:
    """How many rows choose among several keys, the share of them that choose one alone, and how far scores spread."""
    if not isinstance(scores, Tensor) or not scores.requires_grad or not scores.is_floating_point():
        return 0, 0.0, 0.0
    given = scores.detach()
    open_to_it = given > _MASKED
    several = open_to_it.sum(dim) >= _SEVERAL
    rows = int(several.sum())
    if not rows:
        return 0, 0.0, 0.0
    single = float((weights.detach().amax(dim)[several] > _ALL).float().mean())
    return rows, single, float(given[open_to_it].float().std(correction=0))
