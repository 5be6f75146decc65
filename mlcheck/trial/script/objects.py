"""The models, optimizers and schedulers that a script holds, by the names that its variables give them."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any, Self
from weakref import ref

import torch
from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.optim.swa_utils import AveragedModel
from torch.utils.data import DataLoader

from mlcheck.trial.planned import Planned, planned_in
from mlcheck.trial.resumption import Standing
from mlcheck.trial.tensors import same_bits
from mlcheck.trial.traceback import is_user_file

_DEPTH = 3


@dataclass(frozen=True)
class Held:
    """What is trained, by name. `others` are further modules with state, and gradient scalers."""

    models: dict[str, nn.Module]
    optimizers: dict[str, Optimizer]
    schedulers: dict[str, LRScheduler]
    others: list[Any]

    def weighs_as(self, other: Held) -> bool:
        """Whether all weights are the same, bit for bit."""
        return self.models.keys() == other.models.keys() and all(
            same_bits(mine.detach(), its.detach())
            for name, model in self.models.items()
            for mine, its in zip(model.parameters(), other.models[name].parameters())
        )

    @contextmanager
    def weights_kept(self) -> Iterator[None]:
        """What was trained within is taken back, unless it raised."""
        tensors = [t for model in self.models.values() for t in (*model.parameters(), *model.buffers())]
        before = [t.detach().clone() for t in tensors]
        yield
        with torch.no_grad():
            for tensor, value in zip(tensors, before):
                tensor.copy_(value)


@dataclass(frozen=True)
class Start:
    """What a run has at its first training batch. `variables` are those of the user's modules.

    `planned` is how long it is to be, as the functions under way and their objects have it.
    """

    held: Held
    training: DataLoader[Any] | None
    validation: DataLoader[Any] | None
    variables: list[dict[str, Any]]
    planned: Planned | None
    standing: Standing

    @classmethod
    def of(
        cls, frames: list[FrameType], held: Held, training: DataLoader[Any] | None, validation: DataLoader[Any] | None
    ) -> Self:
        return cls(held, training, validation, _globals_of(frames), planned_under_way(frames), _standing(frames))


_KINDS = (nn.Module, Optimizer, LRScheduler, torch.amp.GradScaler)


class _Known:
    """Objects by what they are: a module may say by itself what it equals, and a metric's hash goes by its state."""

    def __init__(self, objects: Iterable[Any]) -> None:
        self._references = {id(one): ref(one) for one in objects}

    def __contains__(self, one: object) -> bool:
        reference = self._references.get(id(one))
        return reference is not None and reference() is one


class Newcomers:
    """Tells what was made since the last `mark`, whoever made it: by constructor, `deepcopy` or `torch.load`.

    A hundred thousand objects of torch stay as they are from run to run: they are frozen out of the collector's
    sight, so that neither a collection nor a look at all objects passes them again. Where something was frozen before,
    it stays so, and what a script freezes is out of sight as well.
    """

    def __init__(self) -> None:
        self._frozen_before = gc.get_freeze_count() > 0
        gc.collect()
        self._old, self._before = _Known(_alive()), _Known(())
        gc.freeze()
        self._frozen = gc.get_freeze_count()

    def mark(self) -> None:
        """Forget what an ended run left behind, and take note of what is alive."""
        gc.collect()
        self._before = _Known(_alive())

    def all(self) -> list[Any]:
        if not self._frozen_before and gc.get_freeze_count() > self._frozen:  # by the script, as before a fork
            gc.unfreeze()
        return [one for one in _alive() if one not in self._before and one not in self._old]

    def close(self) -> None:
        """Leave everything to the collector again, unless this process had frozen objects of its own before."""
        if not self._frozen_before:
            gc.unfreeze()


def _alive() -> Iterator[Any]:
    wanted: dict[type, bool] = {}
    for one in gc.get_objects():
        kind = type(one)
        if kind not in wanted:
            wanted[kind] = issubclass(kind, _KINDS)
        if wanted[kind]:
            yield one


def held_by(frames: list[FrameType], newcomers: Newcomers) -> Held:
    """What the script has made by now. Raises nothing: objects without a variable are named by their class."""
    new = newcomers.all()
    modules = [one for one in new if isinstance(one, nn.Module)]
    optimizers = _distinct([one for one in new if isinstance(one, Optimizer)])
    stepped = {id(p) for one in optimizers for group in one.param_groups for p in group["params"]}
    roots = _roots(modules)
    models = [one for one in roots if not isinstance(one, AveragedModel) and _can_train(one, stepped)]
    named = _Names(frames)
    others = [one for one in roots if not any(one is model for model in models)]
    return Held(
        models=named.of(models),
        optimizers=named.of(optimizers),
        schedulers=named.of([one for one in new if isinstance(one, LRScheduler)]),
        others=others + [one for one in new if isinstance(one, torch.amp.GradScaler)],
    )


def _distinct(optimizers: list[Optimizer]) -> list[Optimizer]:
    """Without wrappers, which hold the optimizers that step: those of frameworks, and the user's (SAM, lookahead)."""
    inner = {id(wrapped) for one in optimizers for wrapped in _wrapped(one)}
    return [one for one in optimizers if id(one) in inner or not _wrapped(one)]


def _wrapped(optimizer: Optimizer) -> list[Optimizer]:
    held = [(name, one) for name, one in vars(optimizer).items() if isinstance(one, Optimizer)]
    mine = _parameters(optimizer)
    return [one for name, one in held if name == "optimizer" or set() < _parameters(one) <= mine]


def _parameters(optimizer: Optimizer) -> set[int]:
    return {id(p) for group in optimizer.param_groups for p in group["params"]}


def _roots(modules: list[nn.Module]) -> list[nn.Module]:
    """Those that are no part of another. A wrapper (data parallel) is the root of what it wraps."""
    inner = {id(part) for one in modules for part in one.modules() if part is not one}
    return [one for one in modules if id(one) not in inner]


def _can_train(model: nn.Module, stepped: set[int]) -> bool:
    """Whether an optimizer holds parameters of it; without any optimizer, whether it has some."""
    parameters = [p for p in model.parameters() if p.requires_grad or id(p) in stepped]
    return any(id(p) in stepped for p in parameters) if stepped else bool(parameters)


class _Names:
    """Variables of the frames under way, of the script's modules, and attributes of the user's objects in them."""

    def __init__(self, frames: list[FrameType]) -> None:
        self._names: dict[int, str] = {}
        self._seen: set[int] = set()
        waiting: list[tuple[str, Any, int]] = []
        for frame in frames:
            waiting += [(name, value, _DEPTH) for name, value in _variables(frame).items()]
        while waiting:
            name, value, depth = waiting.pop(0)
            waiting += self._enter(name, value, depth)

    def _enter(self, name: str, value: Any, depth: int) -> Iterable[tuple[str, Any, int]]:
        if name.startswith("__") or id(value) in self._seen or isinstance(value, ModuleType | type | torch.Tensor):
            return []
        self._seen.add(id(value))
        if isinstance(value, nn.Module | Optimizer | LRScheduler):
            self._names[id(value)] = name
        if isinstance(value, Optimizer) and (inner := _wrapped(value)):
            self._names[id(inner)] = name
            self._seen.add(id(inner))
        if not depth:
            return []
        return [(inner, part, depth - 1) for inner, part in _parts(name, value)]

    def of(self, found: list[Any]) -> dict[str, Any]:
        named: dict[str, Any] = {}
        for one in found:
            name = self._names.get(id(one)) or type(one).__name__
            number = 1
            while name in named:
                number += 1
                name = f"{name.rstrip('0123456789')}{number}"
            named[name] = one
        return named


def _variables(frame: FrameType) -> dict[str, Any]:
    return {**frame.f_globals, **frame.f_locals}


def _parts(name: str, value: Any) -> list[tuple[str, Any]]:
    """What hangs on an object: `self.net` is called `net`, the entry of a dict `nets.left`."""
    if isinstance(value, dict) and len(value) < 100:
        return [(f"{name}.{key}", part) for key, part in value.items() if isinstance(key, str)]
    if isinstance(value, list | tuple) and len(value) < 100:
        return [(f"{name}.{index}", part) for index, part in enumerate(value)]
    if isinstance(value, nn.Module) or not hasattr(value, "__dict__"):
        return []
    attributes = [(key, part) for key, part in vars(value).items() if not key.startswith("__")]
    return [(key if name == "self" else f"{name}.{key}", part) for key, part in attributes[:200]]


def planned_under_way(frames: list[FrameType]) -> Planned | None:
    """What modules, functions under way and the objects whose methods they are say, where they all say the same."""
    return planned_in(_under_way(frames))


def _standing(frames: list[FrameType]) -> Standing:
    """Numbers go by their names and by which of the frames and objects they are of."""
    found = enumerate(_under_way(frames))
    numbers = {f"{i}.{name}": value for i, one in found for name, value in list(one.items()) if type(value) is int}
    return Standing(tuple((f.f_code.co_filename, f.f_lineno) for f in _of_user(frames)), numbers)


def _under_way(frames: list[FrameType]) -> list[dict[str, Any]]:
    within = [dict(frame.f_locals) for frame in _of_user(frames)]
    owners = [vars(one["self"]) for one in within if hasattr(one.get("self"), "__dict__")]
    return [*_globals_of(frames), *within, *owners]


def _globals_of(frames: list[FrameType]) -> list[dict[str, Any]]:
    """The variables of the user's modules that are under way, each once."""
    return list({id(f.f_globals): f.f_globals for f in _of_user(frames)}.values())


def _of_user(frames: list[FrameType]) -> list[FrameType]:
    return [frame for frame in frames if is_user_file(frame.f_code.co_filename)]
