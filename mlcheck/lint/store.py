"""The program's abstract memory: one flat table with a log, so that a branch can be tried and taken back."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

Key = tuple[Hashable, ...]
Delta = dict[Key, Any]

MISSING: Any = None


class Store:
    """Cells by key. `mark` opens a span, `delta` says what changed in it, `undo` takes it back."""

    __slots__ = ("_cells", "_log")

    def __init__(self) -> None:
        self._cells: dict[Key, Any] = {}
        self._log: list[tuple[Key, Any]] = []

    def get(self, key: Key) -> Any:
        """The cell's value, or None if it was never written."""
        return self._cells.get(key)

    def set(self, key: Key, value: Any) -> None:
        self._log.append((key, self._cells.get(key)))
        self._cells[key] = value

    def mark(self) -> int:
        return len(self._log)

    def delta(self, mark: int) -> Delta:
        """The present values of all cells written since the mark; None for one that was cleared."""
        get = self._cells.get
        return {key: get(key) for key, _ in self._log[mark:]}

    def changed(self, mark: int) -> AbstractSet[Key]:
        """The cells written since the mark."""
        return {key for key, _ in self._log[mark:]}

    def undo(self, mark: int) -> None:
        cells, log = self._cells, self._log
        while len(log) > mark:
            key, value = log.pop()
            if value is None:
                cells.pop(key, None)
            else:
                cells[key] = value

    def replay(self, delta: Mapping[Key, Any]) -> None:
        for key, value in delta.items():
            self.set(key, value)
