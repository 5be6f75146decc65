"""A folder's entries from two places, as if from one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self


class Entries:
    """What `os.scandir` gives: entries, to be closed."""

    def __init__(self, entries: dict[str, Any]) -> None:
        self._entries = iter(entries.values())

    def __iter__(self) -> Iterator[Any]:
        return self._entries

    def __next__(self) -> Any:
        return next(self._entries)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def close(self) -> None:
        """Nothing is open."""
