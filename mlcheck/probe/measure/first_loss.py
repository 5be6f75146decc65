"""The loss of an untrained model: what it is made of, what backward makes of it, and what is in the batch."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.floors import REACHED, Floors, floors, mean_loss
from mlcheck.probe.measure.gradients import GradientWatch, named_parameters
from mlcheck.probe.measure.losses import LossCall, LossWatch, graph_nodes
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.simplified import stilled
from mlcheck.probe.measure.tree import batch_size, copied, leaves, map_tensors, rows
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 3


@dataclass(frozen=True, slots=True)
class LossFact:
    """One loss that feeds a backward pass. `value` and `ignorant` are means over what is predicted.

    `ignorant` is what a prediction without any knowledge costs (all logits 0, all outputs 0). `pull` is the
    derivative of what backward is called on with respect to this loss: negative where it is maximised.
    `reduction` is the loss's own: `none` where it is one number an element, which the program weighs itself.
    `outside` is the share of targets that lie where `made_by` never gets, `low` and `high` the targets' range.
    """

    kind: str
    place: Location
    made_by: str
    input_shape: tuple[int, ...]
    target_shape: tuple[int, ...]
    value: float
    ignorant: float
    floors: Floors | None
    pull: float | None
    weighted: bool
    low: float
    high: float
    outside: float
    reduction: str = ""


@dataclass(frozen=True, slots=True)
class Penalty:
    """What is added to the recognised losses: its value, and its gradient's norm as a multiple of theirs.

    `about_weights` says that its value is the same for different batches, so that it knows nothing of the data.
    """

    value: float
    gradient_ratio: float
    about_weights: bool


@dataclass(slots=True)
class FirstLoss:
    """Losses of untrained steps, with optimizers held still.

    `inputs` and `targets` name the tensors of a batch that a model or a loss received. `tiled` is how the value
    that backward sees grows when every sample is in the batch twice: 1 for a mean, 2 for a sum, `growths` the
    same for each of the losses. `values` are
    those of each batch.
    """

    reach: ClassVar[Reach] = "loss"
    order: ClassVar[int] = 20

    losses: list[LossFact] = field(default_factory=list)
    inputs: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    values: list[float] = field(default_factory=list)
    place: Location = field(default_factory=Location)
    penalty: Penalty | None = None
    tiled: float | None = None
    growths: tuple[float | None, ...] = ()
    samples: int = 0
    backwards: int = 0

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        batches = first_batches(trial, BATCHES)
        scenes = [_Scene(trial, batch) for batch in batches]
        first = scenes[0]
        size = batch_size(batches[0])
        tiled, growths = _tiled(trial, batches[0], size, first)
        return cls(
            losses=[_fact(call, pull, size or 1, scenes) for call, pull in first.seen],
            inputs=_named(batches[0], first.inputs),
            targets=_named(batches[0], [call.target for call, _ in first.seen]),
            values=[scene.value for scene in scenes],
            place=first.place,
            penalty=_penalty(scenes),
            tiled=tiled,
            growths=growths,
            samples=size or 0,
            backwards=first.backwards,
        )


class _Scene:
    """One step that changes no parameter, with dropout off and the same random numbers as the others."""

    def __init__(self, trial: Trial, batch: Any) -> None:
        self._parameters = [p for p in named_parameters(trial.models) if p.requires_grad]
        self._losses = LossWatch(keep_dropout=False, keep_results=True)
        self.seen: list[tuple[LossCall, float | None]] = []
        self.parts: list[float] = []
        self.rest = 0.0
        self.ratio: float | None = None
        gradients = GradientWatch([], self._trace)
        modules = ModuleWatch()
        with restored(trial), stilled(trial), self._losses, gradients, modules:
            seed_all(0)
            trial.train_step(copied(batch), 0)
        self.inputs = [t for call in modules.calls for _, t in leaves((call.args, call.kwargs)) if t.numel()]
        self.backwards = len(gradients.backwards)
        self.value = float(sum(float(backward.root.double().sum()) for backward in gradients.backwards))
        self.place = gradients.backwards[0].place if gradients.backwards else Location()
        for call in self._losses.calls:
            call.result = None

    def _trace(self, root: Tensor) -> None:
        nodes = graph_nodes(root)
        mine = [call for call in self._losses.calls if call.node in nodes and call.result is not None]
        pulls = [_pull(root, call) for call in mine]
        self.seen += list(zip(mine, pulls))
        parts = [float(c.result.detach().sum()) * (p or 0.0) for c, p in zip(mine, pulls) if c.result is not None]
        self.parts += parts
        known = sum(parts)
        self.rest = float(root.detach().sum()) - known
        if mine and len(mine) == len([pull for pull in pulls if pull is not None]):
            self.ratio = self._gradient_ratio(root, mine, pulls)

    def _gradient_ratio(self, root: Tensor, mine: list[LossCall], pulls: list[float | None]) -> float | None:
        """The norm of the gradient of all that is added, as a multiple of the losses' own."""
        terms = [c.result.sum() * p for c, p in zip(mine, pulls) if c.result is not None and p]
        if not self._parameters or not terms:
            return None
        known = torch.stack(terms).sum()
        own = _gradients(known, self._parameters)
        whole = _gradients(root, self._parameters)
        rest = math.sqrt(sum(float((w - o).double().pow(2).sum()) for w, o in zip(whole, own)))
        scale = math.sqrt(sum(float(o.double().pow(2).sum()) for o in own))
        return rest / scale if scale > 0 and math.isfinite(rest) else None


def _derivatives(value: Tensor, inputs: list[Tensor]) -> list[Tensor | None]:
    return list(torch.autograd.grad(value.sum(), inputs, retain_graph=True, allow_unused=True))


def _gradients(value: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    """Zeros for parameters whose gradients the program has switched off by now, as GANs do in turn."""
    wanted = [parameter for parameter in parameters if parameter.requires_grad]
    found = dict(zip(map(id, wanted), _derivatives(value, wanted))) if wanted else {}
    return [torch.zeros_like(p) if (g := found.get(id(p))) is None else g.detach() for p in parameters]


def _pull(root: Tensor, call: LossCall) -> float | None:
    """d root / d loss, where it is one number."""
    if call.result is None or not call.result.requires_grad:
        return None
    (found,) = _derivatives(root, [call.result])
    if found is None:
        return None
    low, high = float(found.min()), float(found.max())
    if low != high and low <= 0 <= high:
        return None
    return low if abs(low) < abs(high) else high


def _fact(call: LossCall, pull: float | None, samples: int, scenes: list[_Scene]) -> LossFact:
    again = [other for scene in scenes for other, _ in scene.seen if (other.kind, other.place) == _key(call)]
    values = [mean_loss(other) for other in again]
    floating = call.target.is_floating_point()
    target = call.target.double()
    low, high = REACHED.get(call.bounded_by, (-math.inf, math.inf))
    return LossFact(
        kind=call.kind,
        place=call.place,
        made_by=call.bounded_by,
        input_shape=tuple(call.input.shape),
        target_shape=tuple(call.target.shape),
        value=sum(values) / len(values),
        ignorant=_ignorant(call),
        floors=floors(call, samples),
        pull=pull,
        weighted=call.options.get("weight") is not None or call.options.get("pos_weight") is not None,
        low=float(target.min()) if target.numel() else math.nan,
        high=float(target.max()) if target.numel() else math.nan,
        outside=float(((target < low) | (target > high)).double().mean()) if floating and target.numel() else 0.0,
        reduction=str(call.options.get("reduction", "")),
    )


def _key(call: LossCall) -> tuple[str, Location]:
    return call.kind, call.place


def _ignorant(call: LossCall) -> float:
    """The mean loss of a prediction that knows nothing: equal logits, probability a half, zeros."""
    blank = torch.zeros_like(call.input)
    if call.kind == "nll_loss":
        blank -= math.log(call.input.shape[1] if call.input.ndim > 1 else call.input.shape[0])
    elif call.kind == "binary_cross_entropy":
        blank += 0.5
    return mean_loss(LossCall(call.kind, blank, call.target, call.options))


def _named(batch: Any, tensors: list[Tensor]) -> tuple[str, ...]:
    """The tensors of a batch that occur among `tensors`, whatever their shape there."""
    return tuple(name for name, leaf in leaves(batch) if any(_same_values(leaf, tensor) for tensor in tensors))


def _same_values(one: Tensor, other: Tensor) -> bool:
    if one.numel() != other.numel() or not one.numel():
        return False
    return torch.equal(one.detach().double().flatten(), other.detach().double().flatten())


def _penalty(scenes: list[_Scene]) -> Penalty | None:
    first = scenes[0]
    if first.ratio is None or first.backwards != 1:
        return None
    rests = [scene.rest for scene in scenes]
    spread = max(rests) - min(rests)
    same = len(rests) > 1 and spread <= 1e-4 * max(abs(rest) for rest in rests)
    return Penalty(first.rest, first.ratio, same)


def _tiled(trial: Trial, batch: Any, size: int | None, first: _Scene) -> tuple[float | None, tuple[float | None, ...]]:
    """Of the whole and of each loss. None where samples cannot be repeated, or the loop insists on its batch size."""
    if size is None or not abs(first.value) > 1e-6 or first.backwards != 1:
        return None, ()
    twice = rows(batch, torch.arange(size).repeat_interleave(2))
    try:
        scene = _Scene(trial, map_tensors(twice, torch.Tensor.contiguous))
    except Exception:  # a model for one batch size
        return None, ()
    same = len(scene.parts) == len(first.parts) and [c.kind for c, _ in scene.seen] == [c.kind for c, _ in first.seen]
    pairs = zip(scene.parts, first.parts) if same else ()
    return scene.value / first.value, tuple(after / before if before else None for after, before in pairs)
