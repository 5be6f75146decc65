"""Copies of a model that follow it (an exponential moving average, a teacher, a target network), over a few steps.

A copy is found by its tensors: those of the user's objects that have the names and shapes of a model's parameters.
Where a step moves it, the decay d is the one that fits copy' = d copy + (1 - d) model best; the residual says
whether that recurrence describes the step at all (Polyak averaging; torch.optim.swa_utils.AveragedModel).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock, repeated_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.tree import copied
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import snapshot
from mlcheck.trial.tensors import TensorCell
from mlcheck.trial.trial import Trial

_STEPS = 6
_SEED = 5
_MOST_OBJECTS = 10_000


@dataclass
class Copy:
    """One copy, by the name it hangs on. `decays` and `residuals` are those of the steps that moved it.

    `still` are weights and `still_statistics` running statistics that never moved although the model's did;
    `shared` lie in the model's own memory. `read` says that evaluation calls the copy, `reads_statistics` that it
    does so in evaluation mode, in which batch norm uses what it has stored.
    """

    name: str
    weights: int
    decays: list[float] = field(default_factory=list)
    residuals: list[float] = field(default_factory=list)
    still: tuple[str, ...] = ()
    still_statistics: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    read: bool = False
    reads_statistics: bool = False


@dataclass(frozen=True, slots=True)
class AveragedCopies:
    """The copies of the trial's models, watched over `steps` training steps and one evaluation.

    `straight` says that a framework evaluates right after steps, with nothing of the user's in between.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 4

    copies: tuple[Copy, ...]
    steps: int
    straight: bool
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        follows = _found(trial)
        if not follows:
            raise NotMeasured("there is no second copy of the model's weights")
        seed_all(_SEED)
        clock, steps = Clock(seconds / 2), 0
        for batch in repeated_batches(trial):
            trial.train_step(copied(batch), steps)
            steps += 1
            tensors = _tensors(trial)
            for follow in follows:
                follow.stepped(tensors)
            if steps == _STEPS or not clock.left():
                break
        _evaluate(trial, follows)
        told = tuple(follow.told() for follow in follows)
        return cls(told, steps, trial.saved is not None, Location(*trial.entry))


def _tensors(trial: Trial) -> dict[str, Tensor]:
    """All tensors of the trial's objects by name. A copy may be made anew at each step, so they are looked up again."""
    return {cell.name: cell.tensor for cell in snapshot(trial).cells if isinstance(cell, TensorCell)}


def _found(trial: Trial) -> list[Follow]:
    groups = [group for optimizer in trial.optimizers.values() for group in optimizer.param_groups]
    trained = {id(weight) for group in groups for weight in group["params"]}
    tensors = _tensors(trial)
    follows: dict[str, Follow] = {}
    for model in trial.models.values():
        own = dict(model.named_parameters())
        if not any(id(weight) in trained for weight in own.values()):
            continue
        mine = {id(tensor) for tensor in model.state_dict(keep_vars=True).values()}
        for prefix in _prefixes(tensors, next(iter(own))):
            copies = {name: tensors.get(f"{prefix}.{name}") for name in own}
            fits = all(copy is not None and copy.shape == own[name].shape for name, copy in copies.items())
            if fits and not any(id(copy) in mine or id(copy) in trained for copy in copies.values()):
                follows.setdefault(prefix, Follow(prefix, model, tensors))
    return list(follows.values())


def _prefixes(tensors: Mapping[str, Tensor], first: str) -> list[str]:
    return [name[: -len(first) - 1] for name in tensors if name.endswith(f".{first}")]


class Follow:
    """One copy and the model it copies, step by step."""

    def __init__(self, name: str, model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
        self.name = name
        self._model = model
        self._weights = [key for key, _ in model.named_parameters()]
        self._statistics = [key for key, value in model.named_buffers() if value.is_floating_point()]
        self._copy, self._own = self._values(tensors), self._live()
        self._moved: set[str] = set()
        self._own_moved: set[str] = set()
        self._seen = Copy(name, len(self._weights), shared=tuple(self._shared(tensors)))

    def _live(self) -> dict[str, Tensor]:
        return {name: value.detach().clone() for name, value in self._model.state_dict().items()}

    def _values(self, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
        names = (*self._weights, *self._statistics)
        return {name: tensors[key].detach().clone() for name in names if (key := f"{self.name}.{name}") in tensors}

    def _shared(self, tensors: Mapping[str, Tensor]) -> Iterator[str]:
        own = dict(self._model.named_parameters())
        for name in self._weights:
            copy = tensors[f"{self.name}.{name}"]
            if copy.numel() and copy.data_ptr() == own[name].data_ptr():
                yield name

    def stepped(self, tensors: Mapping[str, Tensor]) -> None:
        """Note what the step did to the copy and to the model, and the decay that explains it."""
        copy, own = self._values(tensors), self._live()
        before, self._copy = self._copy, copy
        moved = {name for name in copy if name in before and not torch.equal(copy[name], before[name])}
        self._own_moved |= {name for name in own if not torch.equal(own[name], self._own[name])}
        self._own = own
        self._moved |= moved
        weights = [name for name in self._weights if name in moved]
        if weights:
            decay, residual = _decay([(before[name], copy[name], own[name]) for name in weights])
            self._seen.decays.append(decay)
            self._seen.residuals.append(residual)

    def watch(self, trial: Trial) -> list[RemovableHandle]:
        """Hooks on the copy's modules, where it is a module: whether evaluation calls it, and how."""
        first = self._copy[self._weights[0]]
        live = {id(module) for module in self._model.modules()}
        owners = [
            module
            for module in _modules(trial)
            for weight in module.parameters(recurse=False)
            if id(module) not in live and weight.shape == first.shape and torch.equal(weight, first)
        ]

        def called(module: nn.Module, _inputs: object) -> None:
            self._seen.read = True
            self._seen.reads_statistics |= not module.training

        return [module.register_forward_pre_hook(called) for module in owners]

    def evaluated(self, tensors: Mapping[str, Tensor]) -> None:
        """Evaluation, too, may bring the copy up to date."""
        copy = self._values(tensors)
        self._moved |= {name for name in copy if name in self._copy and not torch.equal(copy[name], self._copy[name])}

    def told(self) -> Copy:
        lagging = [name for name in self._copy if name in self._own_moved and name not in self._moved]
        self._seen.still = tuple(name for name in lagging if name in self._weights)
        self._seen.still_statistics = tuple(name for name in lagging if name in self._statistics)
        return self._seen


def _decay(triples: list[tuple[Tensor, Tensor, Tensor]]) -> tuple[float, float]:
    """The d of least squares in copy' - model = d (copy - model), and what it leaves, relative to the left side."""
    before = torch.cat([(copy - model).double().flatten() for copy, _, model in triples])
    after = torch.cat([(moved - model).double().flatten() for _, moved, model in triples])
    square = float(before @ before)
    if square == 0.0:
        return math.nan, math.inf
    decay = float(before @ after) / square
    scale = max(float(after.norm()), float(before.norm()))
    return decay, float((after - decay * before).norm()) / scale


def _modules(trial: Trial) -> Iterator[nn.Module]:
    """All modules that hang on the trial's objects, each once."""
    seen: set[int] = set()
    waiting: list[object] = list(trial.objects)
    while waiting and len(seen) < _MOST_OBJECTS:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if isinstance(one, nn.Module):
            yield from one.modules()
        elif isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        elif hasattr(one, "__dict__") and not isinstance(one, type | ModuleType | Tensor):
            waiting += vars(one).values()


def _evaluate(trial: Trial, follows: list[Follow]) -> None:
    """One evaluation, which shows whether a copy is used."""
    if trial.evaluate_step is None or trial.validation_batches is None:
        return
    batch = next(iter(trial.validation_batches()), None)
    if batch is None:
        return
    hooks = [hook for follow in follows for hook in follow.watch(trial)]
    try:
        trial.evaluate_step(copied(batch))
    finally:
        for hook in hooks:
            hook.remove()
    tensors = _tensors(trial)
    for follow in follows:
        follow.evaluated(tensors)
