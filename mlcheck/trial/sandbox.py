"""Remembers a trial's whole state, puts it back bitwise, and checks that it is back.

State is found by walking from the trial's models, optimizers and schedulers and the user's own objects
(`Trial.objects`): attributes of modules, optimizers, schedulers, scalers, samplers and of instances of the
user's classes, dicts, lists and closures. Not walked: datasets, containers of more than 10,000 items.
Tensors and arrays above 1M elements outside of modules and optimizers are watched, not copied.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Dataset, Sampler

from mlcheck.trial import cells, generators, tensors
from mlcheck.trial.cells import Cell
from mlcheck.trial.traceback import is_user_file
from mlcheck.trial.trial import Trial

_LARGEST_CONTAINER = 10_000
_LARGEST_COPY = 1_000_000
_HIDDEN = ("_modules.", "_parameters.", "_buffers.")


@dataclass
class State:
    """What `snapshot` remembered. `unrestored` is filled by `restored`: what could not be put back."""

    cells: list[Cell]
    progress: object
    unrestored: list[str] = field(default_factory=list)


def snapshot(trial: Trial) -> State:
    """Remember the trial's state. A validation under way is ended first, as callbacks may have swapped weights."""
    progress = trial.progress.snapshot() if trial.progress else None
    walk = _Walk()
    for group in (trial.models, trial.optimizers, trial.schedulers):
        for name, root in group.items():
            walk.visit(name, root)
    for root in trial.objects:
        walk.visit(type(root).__name__, root, root=True)
    return State([*walk.found, *generators.global_cells()], progress)


def restore(trial: Trial, state: State) -> None:
    """Put everything back in place: the same Parameter objects, which optimizers hold, with the same bits."""
    try:
        if trial.progress:
            trial.progress.restore(state.progress)
    finally:
        for cell in state.cells:
            with suppress(RuntimeError):  # what cannot be put back is told by `differences`
                cell.restore()


def differences(trial: Trial, state: State) -> list[str]:  # noqa: ARG001 - the cells know their objects
    """What differs bitwise from the snapshot, as `name: what`; empty right after a complete `restore`."""
    changes = ((cell.name, cell.change()) for cell in state.cells)
    return [f"{name}: {change}" for name, change in changes if change]


@contextmanager
def restored(trial: Trial) -> Iterator[State]:
    """Yield the state on entry; on exit put it back and note in its `unrestored` what did not come back."""
    state = snapshot(trial)
    try:
        yield state
    finally:
        restore(trial, state)
        state.unrestored[:] = differences(trial, state)


@dataclass(frozen=True)
class _Visit:
    name: str
    value: Any
    owned: bool
    root: bool = False


class _Walk:
    """Visits everything that can change, each object once, and makes a cell of it."""

    def __init__(self) -> None:
        self.found: list[Cell] = []
        self._seen: dict[int, Any] = {}
        self._names: dict[int, str] = {}

    def visit(self, name: str, value: Any, *, root: bool = False) -> None:
        """Walk from `value`. A root is walked into whatever its class."""
        waiting = [_Visit(name, value, owned=False, root=root)]
        while waiting:
            visit = waiting.pop()
            if isinstance(visit.value, _IMMUTABLE) or id(visit.value) in self._seen:
                continue
            self._seen[id(visit.value)] = visit.value
            waiting += reversed(self._enter(visit))

    def _enter(self, visit: _Visit) -> list[_Visit]:
        """Remember one object; what hangs on it is to be visited next."""
        name, value = visit.name, visit.value
        if isinstance(value, torch.Tensor):
            self._names[id(value)] = name
            self.found.append(_tensor_cell(name, value, visit.owned))
            return []
        if isinstance(value, np.ndarray):
            if value.size <= _LARGEST_COPY and value.dtype != object:
                self.found.append(tensors.ArrayCell(name, value))
            return []
        if generator := generators.generator_cell(name, value):
            self.found.append(generator)
            return []
        if isinstance(value, FunctionType | MethodType):
            return self._enter_function(visit)
        if isinstance(value, dict | list | tuple | set | deque):
            is_data = len(value) > _LARGEST_CONTAINER and not visit.owned
            return [] if is_data else self._enter_container(visit)
        return self._enter_object(visit)

    def _enter_container(self, visit: _Visit) -> list[_Visit]:
        name, value, owned = visit.name, visit.value, visit.owned
        if isinstance(value, dict):
            self.found.append(cells.MappingCell(name, value))
            return [_Visit(self._inner(name, key), inner, owned) for key, inner in value.items()]
        if isinstance(value, set):
            self.found.append(cells.SetCell(name, value))
            return []
        if not isinstance(value, tuple):
            self.found.append(cells.SequenceCell(name, value))
        return [_Visit(f"{name}.{i}", inner, owned) for i, inner in enumerate(value)]

    def _enter_function(self, visit: _Visit) -> list[_Visit]:
        function = visit.value
        if isinstance(function, MethodType):
            return [_Visit(visit.name, function.__self__, visit.owned)]
        if not is_user_file(function.__code__.co_filename):
            return []
        inner = []
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if _filled(cell):
                self.found.append(cells.ClosureCell(variable, cell))
                inner.append(_Visit(variable, cell.cell_contents, visit.owned))
        return inner

    def _enter_object(self, visit: _Visit) -> list[_Visit]:
        value = visit.value
        if isinstance(value, DataLoader):
            parts = {"sampler": value.sampler, "batch_sampler": value.batch_sampler, "generator": value.generator}
            return [_Visit(f"{visit.name}.{key}", part, visit.owned) for key, part in parts.items()] + [
                _Visit(f"{visit.name}.dataset", value.dataset, visit.owned, root=True)
            ]
        owned = isinstance(value, nn.Module | Optimizer | LRScheduler | torch.amp.GradScaler)
        walked = owned or isinstance(value, Sampler) or visit.root or _is_users(value)
        if not walked or not hasattr(value, "__dict__"):
            return []
        if isinstance(value, Dataset):
            drawn = ((name, inner) for name, inner in vars(value).items() if generators.is_generator(inner))
            return [_Visit(self._inner(visit.name, key), inner, owned) for key, inner in drawn]
        if isinstance(value, nn.Module):
            self.found.append(cells.ClassCell(visit.name, value))
        self.found.append(cells.MappingCell(visit.name, vars(value)))
        return [_Visit(self._inner(visit.name, key), inner, owned) for key, inner in vars(value).items()]

    def _inner(self, name: str, key: Any) -> str:
        if isinstance(key, torch.Tensor):
            return f"{name}[{self._names.get(id(key), 'a tensor')}]"
        inner = f"{name}.{key}"
        for hidden in _HIDDEN:
            inner = inner.replace(f".{hidden}", ".")
        return inner


_IMMUTABLE = (bool, int, float, complex, str, bytes, type(None), type, torch.dtype, torch.device, torch.Size)


def _tensor_cell(name: str, tensor: torch.Tensor, owned: bool) -> Cell:
    if is_lazy(tensor):
        return tensors.LazyCell(name, tensor)
    if not owned and tensor.numel() > _LARGEST_COPY:
        return tensors.WatchedTensorCell(name, tensor)
    return tensors.TensorCell(name, tensor)


def _is_users(value: Any) -> bool:
    """Whether an object's class was written by the user, not imported from a library."""
    module = sys.modules.get(type(value).__module__)
    return is_user_file(getattr(module, "__file__", None) or "<builtin>")


def _filled(cell: Any) -> bool:
    """Whether a closure variable has a value yet."""
    try:
        cell.cell_contents  # noqa: B018 - reading an empty cell raises
    except ValueError:
        return False
    return True
