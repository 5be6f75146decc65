"""Averaged copies of a model (EMA): which modules are such copies, and whether their buffers follow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.probe.measure.drive import Clock, repeated_batches, seed_all
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.tree import map_tensors
from mlcheck.trial.trial import Trial

STEPS = 12


@dataclass(frozen=True, slots=True)
class Average:
    """A copy of a model that no optimizer holds, after a few steps.

    `follows` says that its parameters moved, `identical` that they are those of the model still, bit for bit.
    `stale` are running statistics that moved in the model and not in the copy, `buffers` all that moved in the model.
    `evaluated` says that the evaluation ran the copy.
    """

    copy: str
    model: str
    follows: bool
    identical: bool
    stale: tuple[str, ...]
    buffers: int
    evaluated: bool


@dataclass(frozen=True, slots=True)
class Averages:
    """Modules whose parameters began as those of a trained model and are not trained themselves."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 46

    averages: tuple[Average, ...]
    steps: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        pairs = list(_copies(trial))
        if not pairs:
            raise NotMeasured("no copy of a model is kept beside it")
        before = [(_values(copy), _values(model)) for _, copy, _, model in pairs]
        clock, steps = Clock(min(4.0, seconds / 10)), 0
        seed_all(0)
        for batch in repeated_batches(trial):
            trial.train_step(batch, steps)
            steps += 1
            if steps >= STEPS or not clock.left():
                break
        ran = _evaluated(trial)
        return cls(tuple(_average(pair, then, ran) for pair, then in zip(pairs, before)), steps)


Pair = tuple[str, nn.Module, str, nn.Module]
Values = dict[str, Tensor]


def _values(module: nn.Module) -> Values:
    return {name: tensor.detach().clone() for name, tensor in _tensors(module).items()}


def _tensors(module: nn.Module) -> Values:
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def _copies(trial: Trial) -> Iterator[Pair]:
    held = {id(p) for opt in trial.optimizers.values() for group in opt.param_groups for p in group["params"]}
    modules = dict(_modules(trial))
    trained = {name: m for name, m in modules.items() if any(id(p) in held for p in m.parameters())}
    for name, module in modules.items():
        own = dict(module.named_parameters())
        if name in trained or not own:
            continue
        for title, model in trained.items():
            theirs = dict(model.named_parameters())
            same = own.keys() == theirs.keys() and all(torch.equal(own[key], theirs[key]) for key in own)
            if same and not any(own[key] is theirs[key] for key in own):
                yield name, module, title, model
                break


def _modules(trial: Trial) -> Iterator[tuple[str, nn.Module]]:
    """The trial's models, and modules that its objects hold as attributes, or attributes of those."""
    seen: set[int] = set()
    for name, model in trial.models.items():
        seen.add(id(model))
        yield name, model
    for owner in trial.objects:
        for path, value in _attributes(owner, 2):
            if isinstance(value, nn.Module) and id(value) not in seen:
                seen.add(id(value))
                yield path, value


def _attributes(owner: Any, depth: int, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(owner, nn.Module) or not hasattr(owner, "__dict__") or depth == 0:
        return
    for name, value in vars(owner).items():
        if not name.startswith("__"):
            yield path + name, value
            yield from _attributes(value, depth - 1, f"{path}{name}.")


def _evaluated(trial: Trial) -> set[nn.Module]:
    """The modules that the evaluation of one batch runs."""
    if trial.evaluate_step is None or trial.validation_batches is None:
        return set()
    watch = ModuleWatch()
    with watch:
        for batch in islice(trial.validation_batches(), 1):
            trial.evaluate_step(map_tensors(batch, Tensor.detach))
    return watch.with_grad | watch.without_grad


def _average(pair: Pair, before: tuple[Values, Values], ran: set[nn.Module]) -> Average:
    name, copy, title, model = pair
    mine, theirs = _tensors(copy), _tensors(model)
    parameters = [key for key, _ in copy.named_parameters()]
    moved = [key for key, b in model.named_buffers() if b.is_floating_point() and not torch.equal(b, before[1][key])]
    return Average(
        copy=name,
        model=title,
        follows=any(not torch.equal(mine[key], before[0][key]) for key in parameters),
        identical=all(torch.equal(mine[key], theirs[key]) for key in parameters),
        stale=tuple(key for key in moved if key in mine and torch.equal(mine[key], before[0][key])),
        buffers=len(moved),
        evaluated=copy in ran,
    )
