"""Where what a script writes goes, and where it finds it again: a folder in which its absolute paths begin anew."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from mlcheck.trial.script.entries import really_exists, really_make

_FREE = ("/dev/", "/proc/")


class Scratch:
    """The script's own copies below `files`. `removed` are files of the user's that are gone as far as it can see,
    `redirected` lists the files that it meant, in order.

    What it wrote before it began to train (`keep`: prepared data) stays there for the runs that follow, the rest
    (checkpoints, logs) is taken away by `clear`; what the first run left of that is `set_aside`.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.files = os.path.join(folder, "files")
        self.temporary = os.path.join(folder, "tmp")
        self.left = os.path.join(folder, "left")
        self.puts_back = False
        self.removed: set[str] = set()
        self.redirected: dict[str, None] = {}
        self._kept: set[str] = set()
        self._made: set[str] = set()

    def make(self) -> None:
        """The folders themselves, also where the script has cleared them away as temporary files of its own."""
        really_make(self.files)
        really_make(self.temporary)

    def keep(self) -> None:
        """Only what is new: a file of the user's that was changed is to be found unchanged by the next run."""
        self._kept = {path for path in self._written() if not really_exists(path.removeprefix(self.files))}

    def set_aside(self) -> None:
        """What an ended run leaves of what it wrote since it trained: a restart finds it where `puts_back` says so."""
        for path in self._written():
            if path not in self._kept:
                aside = self.left + path.removeprefix(self.files)
                really_make(os.path.dirname(aside))
                with suppress(OSError):
                    shutil.move(path, aside)

    @property
    def leaves_files(self) -> bool:
        return os.path.isdir(self.left)

    def clear(self) -> None:
        for path in self._written():
            if path not in self._kept:
                with suppress(OSError):
                    os.remove(path)
        for folder, _, _ in os.walk(self.files, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)
        self.make()
        self.removed.clear()
        self._made.clear()
        if self.puts_back:
            shutil.copytree(self.left, self.files, dirs_exist_ok=True)

    def stands_from_before(self, path: Any) -> bool:
        """Whether a folder that the script is about to make is there from an earlier run of it, and no other's."""
        meant = self.guarded(path)
        if meant is None or meant in self._made:
            return False
        self._made.add(meant)
        return os.path.isdir(self.files + meant) and not really_exists(meant)

    def _written(self) -> Iterator[str]:
        return (os.path.join(folder, name) for folder, _, names in os.walk(self.files) for name in names)

    def target(self, path: Any, *, bring: bool) -> Any:
        """Where a write to `path` goes. With `bring`, what is there already comes along, to be changed."""
        meant = self.guarded(path)
        if meant is None:
            return path
        goes = self.files + meant
        really_make(os.path.dirname(goes))
        if bring and not really_exists(goes) and meant not in self.removed and os.path.isfile(path):
            shutil.copyfile(path, goes)
        self.removed.discard(meant)
        return goes

    def source(self, path: Any) -> Any:
        """Where `path` is to be read: the script's own copy, where it has written one."""
        meant = self.guarded(path)
        if meant is None:
            return path
        if really_exists(self.files + meant):
            return self.files + meant
        if self.is_removed(meant):
            raise FileNotFoundError(2, os.strerror(2), os.fsdecode(path))
        return path

    def is_removed(self, meant: str) -> bool:
        return any(meant == gone or meant.startswith(gone + os.sep) for gone in self.removed)

    def guarded(self, path: Any) -> str | None:
        """The path meant; None for what is no path (a descriptor) or may be written to."""
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        meant = os.path.abspath(os.fsdecode(path))
        return None if meant == self.folder or meant.startswith((self.folder + os.sep, *_FREE)) else meant

    def note(self, path: Any) -> None:
        meant = self.guarded(path)
        if meant is not None:
            self.redirected[meant] = None

    def both(self, path: Any) -> list[Any]:
        """The user's folder, if it is one, and the script's own over it."""
        meant = self.guarded(path)
        if meant is None or not os.path.isdir(self.files + meant):
            return [self.source(path)]
        below = [] if self.is_removed(meant) or not really_exists(meant) else [path]
        return [*below, self.files + meant]
