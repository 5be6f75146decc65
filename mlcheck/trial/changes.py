"""Which files of the user's are others after a program ran than before: what got past every redirection is told."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from pathlib import Path

_scandir = os.scandir  # a script under examination gets another
_MOST = 20_000
_SHOWN = 6
_NOT_THEIRS = frozenset(
    ["__pycache__", ".git", ".mlcheck_cache", ".venv", "venv", "site-packages", "node_modules", ".ipynb_checkpoints"]
)
_OURS = "mlcheck-"  # reports and scratch folders

Look = dict[str, tuple[int, int]]


class Changes:
    """From `begin` on. Looks at the first 20,000 files below the folder, near ones first, and right in the home folder;
    not at hidden files at home, nor at packages, caches and repositories' own files.
    """

    def __init__(self, folder: str) -> None:
        self._folder = os.path.abspath(folder)
        self._before: Look = {}

    def begin(self) -> None:
        self._before = self._look()

    def told(self) -> str:
        """A sentence that names what changed; empty where nothing did."""
        now = self._look()
        both = self._before.keys() | now.keys()
        found = sorted(path for path in both if self._before.get(path) != now.get(path))
        if not found or (len(now) >= _MOST and len(found) > len(now) // 2):
            return ""
        shown = [os.path.relpath(path, self._folder) if self._is_below(path) else path for path in found[:_SHOWN]]
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        return (
            f"while the program ran, these files changed: {', '.join(shown)}{more} (what compiled code or a program "
            "that it starts writes is not led away)"
        )

    def _is_below(self, path: str) -> bool:
        return path.startswith(self._folder.rstrip(os.sep) + os.sep)

    def _look(self) -> Look:
        home = str(Path.home())
        found = dict(_files(self._folder, _MOST))
        if not home.startswith(self._folder.rstrip(os.sep)):
            found |= {path: state for path, state in _entries(home) if not os.path.basename(path).startswith(".")}
        return found


def _files(folder: str, most: int) -> Iterator[tuple[str, tuple[int, int]]]:
    waiting, seen = deque([folder]), 0
    while waiting and seen < most:
        inner: list[str] = []
        for path, state in _entries(waiting.popleft(), inner):
            yield path, state
            seen += 1
            if seen >= most:
                return
        waiting += inner


def _entries(folder: str, folders: list[str] | None = None) -> Iterator[tuple[str, tuple[int, int]]]:
    """Files right in a folder with their time of change and size; `folders` gets those in it."""
    try:
        entries = sorted(_scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name in _NOT_THEIRS or entry.name.startswith(_OURS):
            continue
        try:
            if entry.is_dir(follow_symlinks=False):
                if folders is not None:
                    folders.append(entry.path)
                continue
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        yield entry.path, (status.st_mtime_ns, status.st_size)
