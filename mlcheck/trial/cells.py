"""Single pieces of mutable state, each of which remembers itself, can be put back and can tell what changed."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from types import CellType
from typing import Any, Protocol

import torch
from torch import nn


class Cell(Protocol):
    """One piece of state. `name` is where it hangs (`model.fc.weight`)."""

    @property
    def name(self) -> str: ...

    def restore(self) -> None:
        """Put back what was remembered, in place."""

    def change(self) -> str:
        """What is different now, empty when nothing is."""


def same_value(one: Any, other: Any) -> bool:
    """Whether two values of an attribute mean the same: identity, or equal plain values."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same_value, one, other))
    if isinstance(one, bool | int | complex | str | bytes | torch.Size | torch.dtype | torch.device):
        return bool(one == other)
    return False


@dataclass
class MappingCell:
    """The entries of a dict, be it one of the user's or the attributes of an object."""

    name: str
    mapping: dict[Any, Any]
    _entries: dict[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        self._entries = dict(self.mapping)

    def restore(self) -> None:
        now = self.mapping
        if list(now) == list(self._entries):
            for key, value in self._entries.items():
                if now[key] is not value:
                    now[key] = value
            return
        now.clear()
        now.update(self._entries)

    def change(self) -> str:
        now, before = self.mapping, self._entries
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


@dataclass
class SequenceCell:
    """The items of a list or deque."""

    name: str
    sequence: list[Any] | deque[Any]
    _items: tuple[Any, ...] = field(init=False)

    def __post_init__(self) -> None:
        self._items = tuple(self.sequence)

    def restore(self) -> None:
        if len(self._items) != len(self.sequence) or any(
            now is not before for now, before in zip(self.sequence, self._items, strict=True)
        ):
            self.sequence.clear()
            self.sequence.extend(self._items)

    def change(self) -> str:
        if len(self._items) != len(self.sequence):
            return f"it has {len(self.sequence)} items instead of {len(self._items)}"
        return "" if all(map(same_value, self.sequence, self._items)) else "its items changed"


@dataclass
class SetCell:
    """The members of a set."""

    name: str
    members: set[Any]
    _members: frozenset[Any] = field(init=False)

    def __post_init__(self) -> None:
        self._members = frozenset(self.members)

    def restore(self) -> None:
        if self.members != self._members:
            self.members.clear()
            self.members.update(self._members)

    def change(self) -> str:
        return "" if self.members == self._members else "its members changed"


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
