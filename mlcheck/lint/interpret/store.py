"""The program's abstract memory: one flat table with a log, so that a branch can be tried and taken back."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

Key = tuple[Hashable, ...]
Delta = dict[Key, Any]

LOCAL = frozenset(["v", "declared"])


class Store:
    """Cells by key. `mark` opens a span, `delta` says what changed in it, `undo` takes it back."""

    __slots__ = ("_cells", "_log", "get")

    get: Callable[[Key], Any]
    """The cell's value, or None if it was never written."""

    def __init__(self) -> None:
        self._cells: dict[Key, Any] = {}
        self._log: list[tuple[Key, Any]] = []
        self.get = self._cells.get

    def set(self, key: Key, value: Any) -> None:
        cells = self._cells
        self._log.append((key, cells.get(key)))
        cells[key] = value

    def all(self, tag: str) -> Iterator[Any]:
        """The values of all cells of a kind: a walk over the whole memory, for rare questions."""
        return (value for key, value in self._cells.items() if key[0] == tag)

    def mark(self) -> int:
        return len(self._log)

    def delta(self, mark: int) -> Delta:
        """The present values of all cells written since the mark; None for one that was cleared."""
        get = self._cells.get
        return {key: get(key) for key, _ in self._log[mark:]}

    def changed(self, mark: int, tag: str = "") -> AbstractSet[Key]:
        """The cells written since the mark; with a tag, only those that begin with it."""
        if tag:
            return {key for key, _ in self._log[mark:] if key[0] == tag}
        return {key for key, _ in self._log[mark:]}

    def first_writes(self, mark: int) -> Delta:
        """The cells written since the mark, with what they held before."""
        before: Delta = {}
        for key, value in self._log[mark:]:
            before.setdefault(key, value)
        return before

    def undo(self, mark: int) -> None:
        cells, log = self._cells, self._log
        for key, value in reversed(log[mark:]):
            if value is None:
                cells.pop(key, None)
            else:
                cells[key] = value
        del log[mark:]

    def drop(self, mark: int, scope: Hashable) -> None:
        """Forget the variables of a scope that was opened after the mark and that nobody can see any more."""
        cells, log = self._cells, self._log
        kept = []
        for entry in log[mark:]:
            key = entry[0]
            if key[1:2] == (scope,) and key[0] in LOCAL:
                cells.pop(key, None)
            else:
                kept.append(entry)
        log[mark:] = kept

    def settle(self, mark: int, first: int) -> None:
        """Make what was written since the mark about objects as new as `first` hold on every path."""
        self._log[mark:] = [entry for entry in self._log[mark:] if not _is_about(entry[0], first)]

    def replay(self, delta: Mapping[Key, Any]) -> None:
        cells, log = self._cells, self._log
        log += [(key, cells.get(key)) for key in delta]
        cells.update(delta)


def _is_about(key: Key, first: int) -> bool:
    """Whether a cell is of such an object, or says what an older one became a part of."""
    owner = key[1] if len(key) > 1 else None
    if key[0] == "parents":
        return True
    if isinstance(owner, tuple) and len(owner) == 2:
        owner = owner[1]
    return isinstance(owner, int) and owner >= first


def is_young(owner: Hashable, first: int) -> bool:
    """Whether an object, or the scope of a call, came to be since `first`."""
    if isinstance(owner, tuple) and len(owner) == 2 and owner[0] in ("call", "comprehension"):
        owner = owner[1]
    return isinstance(owner, int) and owner >= first
