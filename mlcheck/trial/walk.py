"""Finds every piece of mutable state that hangs on a program's objects.

Followed are attributes and slots of modules, optimizers, schedulers, scalers, samplers and of instances of the user's
classes, dicts, lists, closures and default arguments, and for the user's functions and classes the variables of their
module and what is assigned in the class. Of data sets, and what of the user's they hold, only plain values, generators
and where files are read: what they cache and open is theirs to keep. Not followed: containers of more than 10,000
items. Tensors above 1M elements outside of modules and optimizers are watched, not copied; larger arrays are neither.
"""

from __future__ import annotations

import sys
from array import array
from collections import OrderedDict, deque
from dataclasses import dataclass
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data import DataLoader, Dataset, Sampler

from mlcheck.trial import attributes, cells, generators, tensors
from mlcheck.trial.cells import Cell
from mlcheck.trial.traceback import is_user_file

_LARGEST_CONTAINER = 10_000
_LARGEST_COPY = 1_000_000
_HIDDEN = {"_modules", "_parameters", "_buffers"}


@dataclass(frozen=True)
class _Visit:
    name: str
    value: Any
    owned: bool
    root: bool = False


class Walk:
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
        if isinstance(value, _CONTAINERS) and not _goes_its_own_way(value):
            is_data = len(value) > _LARGEST_CONTAINER and not visit.owned
            return [] if is_data else self._enter_container(visit)
        if isinstance(value, torch.Tensor):
            self._names[id(value)] = name
            self.found.append(_tensor_cell(name, value, visit.owned))
            return self._enter_attributes(visit) if value.is_leaf else []
        if isinstance(value, np.ndarray):
            if value.size <= _LARGEST_COPY:
                self.found.append(tensors.ArrayCell(name, value))
            holds_objects = value.dtype == object and value.size <= _LARGEST_CONTAINER
            return (
                [_Visit(f"{name}.{i}", one, visit.owned) for i, one in enumerate(value.flat)] if holds_objects else []
            )
        if isinstance(value, bytearray | array):
            self.found.append(cells.BytesCell(name, value))
            return []
        if generator := generators.generator_cell(name, value):
            self.found.append(generator)
            return []
        if isinstance(value, FunctionType | MethodType):
            return self._enter_function(visit)
        return self._enter_object(visit)

    def _enter_container(self, visit: _Visit) -> list[_Visit]:
        name, value, owned = visit.name, visit.value, visit.owned
        if isinstance(value, dict):
            self.found.append(attributes.MappingCell(name, value))
            return [_Visit(self._inner(name, key), inner, owned) for key, inner in value.items()]
        if isinstance(value, set):
            self.found.append(cells.SetCell(name, value))
            return []
        if not isinstance(value, tuple):
            self.found.append(cells.SequenceCell(name, value))
        return [_Visit(f"{name}.{i}", inner, owned) for i, inner in enumerate(value)]

    def _enter_function(self, visit: _Visit) -> list[_Visit]:
        function, owned = visit.value, visit.owned
        if isinstance(function, MethodType):
            return [_Visit(visit.name, part, owned) for part in (function.__self__, function.__func__)]
        if not is_user_file(function.__code__.co_filename):
            return []
        self.found.append(attributes.MappingCell(visit.name, vars(function)))
        parts = (vars(function), function.__defaults__, function.__kwdefaults__)
        inner = [_Visit(visit.name, part, owned) for part in parts if part]
        for variable, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            if _filled(cell):
                self.found.append(attributes.ClosureCell(variable, cell))
                inner.append(_Visit(variable, cell.cell_contents, owned))
        return inner + self._enter_globals(function.__globals__)

    def _enter_globals(self, variables: dict[str, Any]) -> list[_Visit]:
        """The variables of one of the user's modules; its functions and classes lead back here."""
        if id(variables) in self._seen:
            return []
        self._seen[id(variables)] = variables
        module = str(variables.get("__name__", ""))
        self.found.append(attributes.GlobalsCell(module, variables))
        return [
            _Visit(self._inner(module, name), value, owned=False)
            for name, value in variables.items()
            if not name.startswith("__")
        ]

    def _enter_classes(self, kind: type) -> list[_Visit]:
        """What the user's classes among the bases hold for all their instances."""
        found: list[_Visit] = []
        for one in kind.__mro__:
            if id(one) in self._seen or not _is_users(one):
                continue
            self._seen[id(one)] = one
            self.found.append(attributes.ClassAttributesCell(one.__name__, one))
            found += [
                _Visit(self._inner(one.__name__, name), value, owned=False)
                for name, value in vars(one).items()
                if not name.startswith("__")
            ]
            found += self._enter_globals(vars(sys.modules[one.__module__]))
        return found

    def _enter_object(self, visit: _Visit) -> list[_Visit]:
        value = visit.value
        if isinstance(value, DataLoader):
            parts = {"sampler": value.sampler, "batch_sampler": value.batch_sampler, "generator": value.generator}
            return [_Visit(f"{visit.name}.{key}", part, visit.owned) for key, part in parts.items()] + [
                _Visit(f"{visit.name}.dataset", value.dataset, visit.owned, root=True)
            ]
        owned = isinstance(value, nn.Module | Optimizer | LRScheduler | torch.amp.GradScaler)
        walked = owned or isinstance(value, Sampler | Dataset) or visit.root or _is_users(type(value))
        if not walked:
            return []
        classes = self._enter_classes(type(value))
        if slots := attributes.slots_of(value):
            self.found.append(attributes.SlotsCell(visit.name, value))
            classes += [_Visit(self._inner(visit.name, key), inner, owned) for key, inner in slots.items()]
        if not hasattr(value, "__dict__"):
            return classes
        if isinstance(value, Dataset):
            return classes + self._enter_dataset(visit)
        if isinstance(value, nn.Module):
            self.found.append(attributes.ClassCell(visit.name, value))
        self.found.append(attributes.MappingCell(visit.name, vars(value)))
        return [_Visit(self._inner(visit.name, key), inner, owned) for key, inner in vars(value).items()] + classes

    def _enter_dataset(self, visit: _Visit) -> list[_Visit]:
        self._enter_data(visit.name, visit.value)
        for key, inner in vars(visit.value).items():
            if _is_users(type(inner)) and hasattr(inner, "__dict__") and not isinstance(inner, Dataset):
                self._enter_data(self._inner(visit.name, key), inner)
        return [
            _Visit(self._inner(visit.name, key), inner, visit.owned)
            for key, inner in vars(visit.value).items()
            if generators.is_generator(inner) or isinstance(inner, Dataset)
        ]

    def _enter_data(self, name: str, holder: Any) -> None:
        """Where its counters stand and its files are read next."""
        self.found.append(attributes.PlainValuesCell(name, vars(holder)))
        files = (cells.file_cell(self._inner(name, key), inner) for key, inner in vars(holder).items())
        self.found += [file for file in files if file]

    def _enter_attributes(self, visit: _Visit) -> list[_Visit]:
        """What the user hangs on a tensor that is trained."""
        self.found.append(attributes.MappingCell(visit.name, vars(visit.value)))
        return [_Visit(self._inner(visit.name, key), inner, visit.owned) for key, inner in vars(visit.value).items()]

    def _inner(self, name: str, key: Any) -> str:
        if isinstance(key, torch.Tensor):
            return f"{name}[{self._names.get(id(key), 'a tensor')}]"
        owner, _, last = name.rpartition(".")
        return f"{owner if owner and last in _HIDDEN else name}.{key}"


_CONTAINERS = (dict, list, tuple, set, deque)
_IMMUTABLE = (bool, int, float, complex, str, bytes, type(None), type, torch.dtype, torch.device, torch.Size)


def _tensor_cell(name: str, tensor: torch.Tensor, owned: bool) -> Cell:
    if is_lazy(tensor):
        return tensors.LazyCell(name, tensor)
    if not owned and tensor.numel() > _LARGEST_COPY:
        return tensors.WatchedTensorCell(name, tensor)
    return tensors.TensorCell(name, tensor)


def _is_users(kind: type) -> bool:
    """Whether a class was written by the user, not imported from a library."""
    module = sys.modules.get(kind.__module__)
    return is_user_file(getattr(module, "__file__", None) or "<builtin>")


def _goes_its_own_way(value: Any) -> bool:
    """Whether a class derived from dict does not go over its keys: scipy's `dok_matrix` goes over its rows."""
    return isinstance(value, dict) and type(value).__iter__ not in (dict.__iter__, OrderedDict.__iter__)


def _filled(cell: Any) -> bool:
    """Whether a closure variable has a value yet."""
    try:
        cell.cell_contents  # noqa: B018 - reading an empty cell raises
    except ValueError:
        return False
    return True
