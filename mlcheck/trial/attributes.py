"""Remembered attributes and variables: of objects, classes, modules, functions."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CellType, ModuleType
from typing import Any

import torch
from torch import nn

from mlcheck.trial.cells import same_value

_FEW = 16
_PLAIN = (bool, int, float, complex, str, bytes)


@dataclass
class MappingCell:
    """The entries of a dict, be it one of the user's or the attributes of an object.

    What hangs on a graph is not put back: by then a backward pass has freed it, and the step under way has its own.
    """

    name: str
    mapping: dict[Any, Any]
    _entries: dict[Any, Any] = field(init=False)
    _on_graph: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._entries = dict(self.mapping)
        self._on_graph = tuple(key for key, value in self._entries.items() if _hangs_on_graph(value))

    def restore(self) -> None:
        now, entries = self.mapping, self._wanted()
        if list(now) == list(entries):
            for key, value in entries.items():
                if now[key] is not value:
                    now[key] = value
            return
        now.clear()
        now.update(entries)

    def change(self) -> str:
        return _told(self.mapping, self._wanted())

    def _wanted(self) -> dict[Any, Any]:
        return self._entries | {key: self.mapping[key] for key in self._on_graph if key in self.mapping}


@dataclass
class GlobalsCell(MappingCell):
    """The variables of a module. What was imported meanwhile stays, as it would not be imported again.

    So does what begins with `__`: torch.compile keeps there what its compiled functions look up. And so does what a
    script under way has named: its code goes on from where it stands and counts on its variables.
    """

    def restore(self) -> None:
        self._entries.update({key: value for key, value in self.mapping.items() if self._stays(key, value)})
        super().restore()

    def change(self) -> str:
        self._entries.update({key: value for key, value in self.mapping.items() if self._stays(key, value)})
        return super().change()

    def _stays(self, key: Any, value: Any) -> bool:
        is_script = self._entries.get("__name__") == "__main__"
        return key not in self._entries and (is_script or isinstance(value, ModuleType) or str(key).startswith("__"))


@dataclass
class PlainValuesCell:
    """Those entries of a mapping that are plain values (counters, positions), and stay so."""

    name: str
    mapping: dict[Any, Any]
    _entries: dict[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._entries = {key: value for key, value in self.mapping.items() if isinstance(value, _PLAIN)}

    def restore(self) -> None:
        self.mapping.update(self._changed())

    def change(self) -> str:
        return ", ".join(f"{_key(key)} became {_short(self.mapping[key])}" for key in list(self._changed())[:3])

    def _changed(self) -> dict[Any, Any]:
        now = self.mapping
        return {k: v for k, v in self._entries.items() if isinstance(now.get(k), _PLAIN) and not same_value(now[k], v)}


@dataclass
class ClassAttributesCell:
    """What is assigned in a class of the user's: counters over all its instances, functions put in place of others."""

    name: str
    kind: type
    _entries: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._entries = self._now()

    def restore(self) -> None:
        now = self._now()
        for key in now.keys() - self._entries.keys():
            type.__delattr__(self.kind, key)
        for key, value in self._entries.items():
            if key not in now or now[key] is not value:
                type.__setattr__(self.kind, key, value)

    def change(self) -> str:
        return _told(self._now(), self._entries)

    def _now(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self.kind).items() if not _is_dunder(key) and key != "_abc_impl"}


@dataclass
class SlotsCell:
    """The attributes of an object that keeps them in slots."""

    name: str
    owner: object
    _entries: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._entries = slots_of(self.owner)

    def restore(self) -> None:
        now = slots_of(self.owner)
        for key in now.keys() - self._entries.keys():
            object.__delattr__(self.owner, key)
        for key, value in self._entries.items():
            if now.get(key) is not value:
                object.__setattr__(self.owner, key, value)

    def change(self) -> str:
        return _told(slots_of(self.owner), self._entries)


def slots_of(owner: object) -> dict[str, Any]:
    """The slots that are filled, of all the object's classes."""
    slots = [vars(kind).get("__slots__", ()) for kind in type(owner).__mro__]
    names = [name for one in slots for name in ((one,) if isinstance(one, str) else one)]
    return {name: getattr(owner, name) for name in names if not _is_dunder(name) and hasattr(owner, name)}


@dataclass
class ClassCell:
    """The class of a module: parametrizations and lazy modules exchange it."""

    name: str
    module: nn.Module
    _kind: type = field(init=False)

    def __post_init__(self) -> None:
        self._kind = type(self.module)

    def restore(self) -> None:
        if type(self.module) is not self._kind:
            self.module.__class__ = self._kind

    def change(self) -> str:
        now = type(self.module)
        return "" if now is self._kind else f"its class became {now.__name__}"


@dataclass
class ClosureCell:
    """A variable that a function of the user's shares with its surroundings."""

    name: str
    cell: CellType
    _value: Any = field(init=False)

    def __post_init__(self) -> None:
        self._value = self.cell.cell_contents

    def restore(self) -> None:
        if self.cell.cell_contents is not self._value:
            self.cell.cell_contents = self._value

    def change(self) -> str:
        now = self.cell.cell_contents
        return "" if same_value(now, self._value) else f"it became {_short(now)}"


def _is_dunder(key: Any) -> bool:
    return isinstance(key, str) and key.startswith("__") and key.endswith("__")


def _told(now: dict[Any, Any], before: dict[Any, Any]) -> str:
    if now.keys() == before.keys() and all(now[key] is value for key, value in before.items()):
        return ""
    changed = [
        *(f"{_key(key)} appeared" for key in now if key not in before),
        *(f"{_key(key)} disappeared" for key in before if key not in now),
        *(f"{_key(key)} became {_short(now[key])}" for key in before if _differs(now, before, key)),
    ]
    return ", ".join(changed[:3])


def _differs(now: dict[Any, Any], before: dict[Any, Any], key: Any) -> bool:
    return key in now and not same_value(now[key], before[key])


def _key(key: Any) -> str:
    return f"an entry for a tensor of shape {tuple(key.shape)}" if isinstance(key, torch.Tensor) else f"`{key}`"


def _short(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | float | str | None) else f"another {type(value).__name__}"


def _hangs_on_graph(value: Any, depth: int = 3) -> bool:
    """Whether a value, or one in a tuple or list of a few, was computed with gradients."""
    if isinstance(value, torch.Tensor):
        return value.grad_fn is not None
    few = isinstance(value, tuple | list) and len(value) <= _FEW and depth > 0
    return few and any(_hangs_on_graph(part, depth - 1) for part in value)
