"""Files in two places, as if in one: what is really there, and a folder's entries from both.

What is done here is done with Python's own functions, whatever stands in their places meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Self

_lstat, _mkdir = os.lstat, os.mkdir


def really_exists(path: str) -> bool:
    """Whether something is really there, whatever the script has been told."""
    try:
        _lstat(path)
    except OSError:
        return False
    return True


def really_make(folder: str) -> None:
    """Make a folder and those it lies in, where they are not there."""
    if really_exists(folder):
        return
    really_make(os.path.dirname(folder))
    with suppress(FileExistsError):  # another process was first
        _mkdir(folder)


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
