"""The parameters of the untrained model, and again after a few steps: equal rows, shared memory, fresh values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.probe.measure.drive import Clock, repeated_batches
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.training.gradients import GradientWatch
from mlcheck.trial.generators import seed_all
from mlcheck.trial.trial import Trial

UPDATES = 5
MOST_STEPS = 64
_ENOUGH, _FEWEST = 256, 48
_DEVIATIONS = 3


@dataclass(slots=True)
class WeightStory:
    """One weight of at least two dimensions. `rows` are its output units, of an embedding its columns.

    `twins` counts the rows that equal another row, bias included, at the start; `twins_after` the same after the
    steps. `constant` is the value that all of it has, `constant_after` the same after the steps. `ran` says that
    its module was called, `fresh` names the distribution that a new layer would have been drawn from.
    """

    name: str
    kind: str
    rows: int
    trained: bool
    twins: int
    constant: float | None
    gain: float
    ran: bool = False
    twins_after: int = 0
    constant_after: float | None = None
    changed: bool = False
    fresh: str = ""


@dataclass(slots=True)
class Parameters:
    """`shared` are pairs of distinct parameters in the same memory, `copies` an embedding and a linear layer that
    began with the same values without being one parameter, or two linear layers, one turned round. `updates` is how
    often every optimizer stepped."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 8

    weights: list[WeightStory]
    shared: list[tuple[str, str]]
    copies: list[tuple[str, str]]
    updates: int = 0
    total: int = 0
    modules: list[tuple[str, str, int]] = field(default_factory=list)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        owners = list(_owners(trial))
        before = [
            (_story(name, module, weight), module, weight, weight.detach().clone()) for name, module, weight in owners
        ]
        copied = _copies(owners)
        clock, steps, watch, gradients = Clock(min(5.0, seconds / 10)), 0, ModuleWatch(), GradientWatch([])
        seed_all(0)
        with watch, gradients:
            for batch in repeated_batches(trial):
                trial.train_step(batch, steps)
                steps += 1
                updates = min((gradients.stepped.get(id(opt), 0) for opt in trial.optimizers.values()), default=0)
                if updates >= UPDATES or steps >= MOST_STEPS or not clock.left():
                    break
        ran = watch.with_grad | watch.without_grad
        for story, module, weight, then in before:
            story.ran, story.twins_after = module in ran, _twins(module, weight)
            story.constant_after = _constant(weight)
            story.changed = not torch.equal(weight.detach(), then)
            story.fresh = "" if story.changed or _is_copy(then, weight, before) else _fresh(module, weight.detach())
        total = sum(p.numel() for model in trial.models.values() for p in model.parameters())
        return cls([story for story, *_ in before], _shared(trial), copied, updates, total, _by_module(trial))


Owner = tuple[str, nn.Module, Tensor]


def _owners(trial: Trial) -> list[Owner]:
    found: list[Owner] = []
    seen: set[int] = set()
    several = len(trial.models) > 1
    for key, model in trial.models.items():
        for path, module in model.named_modules():
            for own, weight in _weights(module):
                if id(weight) not in seen:
                    seen.add(id(weight))
                    name = ".".join(part for part in (key if several else "", path, own) if part)
                    found.append((name, module, weight))
    return found


def _weights(module: nn.Module) -> Iterator[tuple[str, nn.Parameter]]:
    """Its `weight`, and what is frozen of a recurrent layer's several."""
    for name, weight in module.named_parameters(recurse=False):
        recurs = isinstance(module, nn.RNNBase) and not weight.requires_grad
        if (name == "weight" or recurs) and weight.ndim >= 2 and weight.numel():
            yield name, weight


def _story(name: str, module: nn.Module, weight: Tensor) -> WeightStory:
    fan_in = weight[0].numel()
    return WeightStory(
        name=name,
        kind=type(module).__name__,
        rows=weight.shape[1 if isinstance(module, nn.Embedding) else 0],
        trained=weight.requires_grad,
        twins=_twins(module, weight),
        constant=_constant(weight),
        gain=float(weight.detach().double().std(correction=0)) * math.sqrt(fan_in),
    )


def _twins(module: nn.Module, weight: Tensor) -> int:
    """Units of a linear or convolutional layer or of a table that are not the only ones of their kind."""
    units = _units(module, weight)
    if units is None or len(units) < 2:
        return 0
    counts = torch.unique(units, dim=0, return_counts=True)[1]
    return int(counts[counts > 1].sum())


def _units(module: nn.Module, weight: Tensor) -> Tensor | None:
    """The rows of a layer with their biases; of a table, whose rows are words, the columns."""
    if isinstance(module, nn.Embedding):
        return weight.detach().T
    if not isinstance(module, (nn.Linear, nn.modules.conv._ConvNd)):
        return None
    flat = weight.detach().reshape(weight.shape[0], -1)
    bias = getattr(module, "bias", None)
    if not isinstance(bias, Tensor) or bias.shape != flat.shape[:1]:
        return flat
    return torch.cat([flat, bias.detach()[:, None]], dim=1)


def _constant(weight: Tensor) -> float | None:
    flat = weight.detach().flatten()
    return float(flat[0]) if flat.numel() > 1 and bool((flat == flat[0]).all()) else None


def _shared(trial: Trial) -> list[tuple[str, str]]:
    """Pairs of parameters that are two objects over the same memory."""
    found: list[tuple[str, str]] = []
    held: dict[tuple[int, int], tuple[str, nn.Parameter]] = {}
    for model in trial.models.values():
        for name, parameter in model.named_parameters():
            if not parameter.numel() or parameter.is_meta:
                continue
            key = (parameter.data_ptr(), parameter.numel())
            other, same = held.setdefault(key, (name, parameter))
            if same is not parameter:  # one that several models hold is one
                found.append((other, name))
    return found


def _copies(owners: list[Owner]) -> list[tuple[str, str]]:
    tables = [(name, weight) for name, module, weight in owners if isinstance(module, nn.Embedding)]
    heads = [(name, weight) for name, module, weight in owners if isinstance(module, nn.Linear)]
    return [(table, head) for table, one in tables for head, other in heads if _copied(one, other)] + _transposed(heads)


def _transposed(layers: list[tuple[str, Tensor]]) -> list[tuple[str, str]]:
    """Linear layers of which one begins as the other turned round, as in an autoencoder."""
    return [
        (name, other)
        for index, (name, one) in enumerate(layers)
        for other, weight in layers[index + 1 :]
        if one.shape == weight.T.shape and _copied(one, weight.T) and not torch.equal(weight, weight.T)
    ]


def _copied(one: Tensor, other: Tensor) -> bool:
    """Whether these are the same numbers in two places, and not one number alone."""
    apart = one.shape == other.shape and one.data_ptr() != other.data_ptr()
    return apart and torch.equal(one, other) and _constant(one) is None


def _is_copy(values: Tensor, weight: Tensor, before: list[tuple[WeightStory, nn.Module, Tensor, Tensor]]) -> bool:
    """Whether another weight began with these values: an averaged or target network is made so."""
    return any(
        other is not weight and then.shape == values.shape and torch.equal(then, values) for *_, other, then in before
    )


def _fresh(module: nn.Module, weight: Tensor) -> str:
    """The distribution torch draws a new layer from, where the values look drawn from it and from nothing else."""
    values = weight.double().flatten()
    if isinstance(module, nn.Embedding):
        if values.numel() < _ENOUGH:
            return ""
        spread = float(values.std(correction=0))
        normal = spread > 0 and _distance(torch.special.ndtr(values / spread)) and _even(weight / spread)
        return f"N(0, {spread:.2g}²)" if normal else ""
    if isinstance(module, (nn.Linear, nn.modules.conv._ConvNd, nn.RNNBase)):
        bound = 1 / math.sqrt(module.hidden_size if isinstance(module, nn.RNNBase) else weight[0].numel())
        inside = bool((values.abs() <= bound * 1.0001).all())
        return f"U(±{bound:.3g})" if inside and _even_within(values / bound) else ""
    return ""


def _even(standard: Tensor) -> bool:
    """Whether all rows and all columns spread alike: the squared norms of normal ones are chi-squared."""
    if min(standard.shape) < 4:
        return False
    for dim in (0, 1):
        freedom = standard.shape[dim]
        norms = standard.double().pow(2).sum(dim)
        if not 0.5 < float(norms.var(correction=0)) / (2 * freedom) < 2.0:
            return False
    return True


def _even_within(values: Tensor) -> bool:
    """Whether they look drawn evenly from -1 to 1. Among few, many other distributions pass but for their variance."""
    count = values.numel()
    if count < _FEWEST:
        return False
    variance = 3 * float(values.pow(2).mean())  # of such draws 1, and its own is 4/5 / count
    near = abs(variance - 1) < _DEVIATIONS * math.sqrt(0.8 / count)
    return (near or count >= _ENOUGH) and _distance((values + 1) / 2)


def _distance(probabilities: Tensor) -> bool:
    """Kolmogorov-Smirnov: whether the values are within what 1 in 100 such draws would show."""
    ranked = probabilities.sort().values
    count = ranked.numel()
    steps = torch.arange(1, count + 1, dtype=torch.float64, device=ranked.device) / count
    worst = max(float((steps - ranked).max()), float((ranked - steps + 1 / count).max()))
    return worst < 1.63 / math.sqrt(count)


def _by_module(trial: Trial) -> list[tuple[str, str, int]]:
    """Modules that own parameters: path, class, how many numbers."""
    return [
        (path or key, type(module).__name__, sum(p.numel() for p in module.parameters(recurse=False)))
        for key, model in trial.models.items()
        for path, module in model.named_modules()
        if any(True for _ in module.parameters(recurse=False))
    ]
