"""Single pieces of mutable state, each of which remembers itself, can be put back and can tell what changed."""

from __future__ import annotations

import math
from array import array
from collections import deque
from dataclasses import dataclass, field
from io import BufferedReader, FileIO, TextIOWrapper
from typing import Any, Protocol

import torch

from mlcheck.core.plural import plural


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
            return f"it has {plural(len(self.sequence), 'item')} instead of {len(self._items)}"
        return "" if all(map(same_value, self.sequence, self._items)) else "its items changed"


@dataclass
class BytesCell:
    """The content of a bytearray or of an array of Python's."""

    name: str
    content: bytearray | array[Any]
    _content: bytearray | array[Any] = field(init=False)

    def __post_init__(self) -> None:
        self._content = self.content[:]

    def restore(self) -> None:
        if self.change():
            self.content[:] = self._content  # type: ignore[assignment]

    def change(self) -> str:
        return "" if self.content == self._content else "its content changed"


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
class FileCell:
    """Where an open file is read next."""

    name: str
    file: TextIOWrapper | BufferedReader
    _position: int = field(init=False)

    def __post_init__(self) -> None:
        self._position = self.file.tell()

    def restore(self) -> None:
        if not self.file.closed and self.file.tell() != self._position:
            self.file.seek(self._position)

    def change(self) -> str:
        moved = not self.file.closed and self.file.tell() != self._position
        return "is read from another place" if moved else ""


def file_cell(name: str, value: Any) -> FileCell | None:
    """Of a file on disk that is open for reading and can be read anew; not while a loop goes over its lines."""
    buffer = value.buffer if isinstance(value, TextIOWrapper) and not value.closed else value
    if not isinstance(buffer, BufferedReader) or buffer.closed or not isinstance(buffer.raw, FileIO):
        return None
    try:
        return FileCell(name, value) if value.seekable() else None
    except OSError:
        return None
