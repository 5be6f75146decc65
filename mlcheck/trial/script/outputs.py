"""Keeps what a script writes away from the user's files: it lands in a scratch folder, where the script finds it again.

Python's own ways to write, rename and remove are led there, and `torch.save`, TorchScript and safetensors with them.
An audit hook refuses other ways to open a file for writing. What another library writes from compiled code, or a
process that the script starts, is not seen.
"""

from __future__ import annotations

import builtins
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from mlcheck.trial.script.compiled import compiled_files
from mlcheck.trial.script.entries import Entries, really_exists

_FREE = ("/dev/", "/proc/")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Outputs:
    """While installed, writes go below `scratch`. `redirected` lists the files that the script meant, in order.

    What it wrote before it began to train (`keep`: prepared data) stays there for the runs that follow, the
    rest (checkpoints, logs) is taken away by `clear`. With `forgives`, a checkpoint of what cannot be pickled is
    left out: while a script is examined, some of what it saves has been replaced.
    """

    def __init__(self, scratch: Path) -> None:
        self._scratch = os.path.realpath(scratch)
        self._files = os.path.join(self._scratch, "files")
        self._removed: set[str] = set()
        self._kept: set[str] = set()
        self._active = False
        self._stack = ExitStack()
        self.redirected: dict[str, None] = {}
        self.forgives = False

    def install(self) -> None:
        temporary = os.path.join(self._scratch, "tmp")
        os.makedirs(temporary, exist_ok=True)
        os.makedirs(self._files, exist_ok=True)
        self._set(tempfile, "tempdir", temporary)
        self._set(sys, "dont_write_bytecode", True)
        opened = self._opening(builtins.open)
        for owner, name in _names_of(builtins.open):
            self._set(owner, name, opened)
        self._set(os, "open", self._opening_by_flags(os.open))
        for name in ("stat", "lstat", "access"):
            self._set(os, name, self._finding(getattr(os, name)))
        self._set(os, "chdir", self._entering(os.chdir))
        self._set(os, "listdir", self._listing(os.listdir))
        self._set(os, "scandir", self._scanning(os.scandir))
        for name in ("mkdir", "chmod", "utime", "truncate"):
            self._set(os, name, self._writing(getattr(os, name)))
        for owner, name in ((os, "remove"), (os, "unlink"), (os, "rmdir"), (shutil, "rmtree")):
            self._set(owner, name, self._removing(getattr(owner, name)))
        for name in ("rename", "replace"):
            self._set(os, name, self._moving(getattr(os, name)))
        for name in ("symlink", "link"):
            self._set(os, name, self._linking(getattr(os, name)))
        self._set(torch, "save", self._saving(torch.save))
        self._set(torch, "load", self._finding(torch.load))
        for owner, name, position, writes in compiled_files():
            meant = self._meant_at(getattr(owner, name), position, writes)
            self._set(owner, name, meant)
        self._active = True
        sys.addaudithook(self._audit)

    def uninstall(self) -> None:
        """Undo all. The audit hook, which Python cannot take back, says nothing any more."""
        self._active = False
        self._stack.close()

    def keep(self) -> None:
        """Only what is new: a file of the user's that was changed is to be found unchanged by the next run."""
        self._kept = {path for path in self._written() if not really_exists(path.removeprefix(self._files))}

    def clear(self) -> None:
        for path in self._written():
            if path not in self._kept:
                with suppress(OSError):
                    os.remove(path)
        self._removed.clear()

    def _written(self) -> Iterator[str]:
        return (os.path.join(folder, name) for folder, _, names in os.walk(self._files) for name in names)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._stack.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def _target(self, path: Any, *, bring: bool) -> Any:
        """Where a write to `path` goes. With `bring`, what is there already comes along, to be changed."""
        meant = self._guarded(path)
        if meant is None:
            return path
        goes = self._files + meant
        os.makedirs(os.path.dirname(goes), exist_ok=True)
        if bring and not really_exists(goes) and meant not in self._removed and os.path.isfile(path):
            shutil.copyfile(path, goes)
        self._removed.discard(meant)
        return goes

    def _source(self, path: Any) -> Any:
        """Where `path` is to be read: the script's own copy, where it has written one."""
        meant = self._guarded(path)
        if meant is None:
            return path
        if really_exists(self._files + meant):
            return self._files + meant
        if self._is_removed(meant):
            raise FileNotFoundError(2, os.strerror(2), os.fsdecode(path))
        return path

    def _is_removed(self, meant: str) -> bool:
        return any(meant == gone or meant.startswith(gone + os.sep) for gone in self._removed)

    def _guarded(self, path: Any) -> str | None:
        """The path meant; None for what is no path (a descriptor) or may be written to."""
        if not isinstance(path, str | bytes | os.PathLike):
            return None
        meant = os.path.abspath(os.fsdecode(path))
        return None if meant == self._scratch or meant.startswith((self._scratch + os.sep, *_FREE)) else meant

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if not set(mode) & set("wax+"):
                return original(self._source(file), mode, *args, **kwargs)
            if "x" in mode and os.path.lexists(file):
                raise FileExistsError(17, os.strerror(17), os.fsdecode(file))
            self._note(file)
            return original(self._target(file, bring="w" not in mode), mode, *args, **kwargs)

        return opened

    def _note(self, path: Any) -> None:
        meant = self._guarded(path)
        if meant is not None:
            self.redirected[meant] = None

    def _opening_by_flags(self, original: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if dir_fd is not None:
                return original(path, flags, mode, dir_fd=dir_fd)
            if not flags & _WRITING:
                return original(self._source(path), flags, mode)
            self._note(path)
            return original(self._target(path, bring=not flags & os.O_TRUNC), flags, mode)

        return opened

    def _finding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def found(path: Any, *args: Any, **kwargs: Any) -> Any:
            there = path if kwargs.get("dir_fd") is not None else self._source(path)
            return original(there, *args, **kwargs)

        return found

    def _entering(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        def entered(path: Any) -> None:
            """The user's own folder, where there is one: what is read by relative names lies there."""
            meant = self._guarded(path)
            original(path if meant is None or really_exists(meant) else self._source(path))

        return entered

    def _listing(self, original: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def listed(path: Any = ".") -> list[Any]:
            return list(dict.fromkeys(name for folder in self._both(path) for name in original(folder)))

        return listed

    def _scanning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scanned(path: Any = ".") -> Any:
            return Entries({entry.name: entry for folder in self._both(path) for entry in original(folder)})

        return scanned

    def _both(self, path: Any) -> list[Any]:
        """The user's folder, if it is one, and the script's own over it."""
        meant = self._guarded(path)
        if meant is None or not os.path.isdir(self._files + meant):
            return [self._source(path)]
        below = [] if self._is_removed(meant) or not really_exists(meant) else [path]
        return [*below, self._files + meant]

    def _writing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def written(path: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is not None:
                return original(path, *args, **kwargs)
            if original.__name__ == "mkdir" and os.path.lexists(path):
                raise FileExistsError(17, os.strerror(17), os.fsdecode(path))
            return original(self._target(path, bring=True), *args, **kwargs)

        return written

    def _removing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def removed(path: Any, *args: Any, **kwargs: Any) -> Any:
            meant = self._guarded(path)
            if meant is None or kwargs.get("dir_fd") is not None or not os.path.lexists(path):
                return original(path, *args, **kwargs)
            self._note(path)
            if really_exists(self._files + meant):
                original(self._files + meant, *args, **kwargs)
            self._removed.add(meant)
            return None

        return removed

    def _moving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def moved(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            comes, goes = self._source(src), self._target(dst, bring=False)
            self._note(dst)
            meant = self._guarded(src)
            if meant is None or comes is not src:
                original(comes, goes, *args, **kwargs)
            elif os.path.isdir(src):
                shutil.copytree(src, goes)
            else:
                shutil.copyfile(src, goes)
            if meant is not None:
                self._removed.add(meant)

        return moved

    def _linking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def linked(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            return original(src, self._target(dst, bring=False), *args, **kwargs)

        return linked

    def _saving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def saved(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            is_path = isinstance(f, str | os.PathLike)
            if is_path:
                self._note(f)
            try:
                return original(obj, self._target(f, bring=False) if is_path else f, *args, **kwargs)
            except (AttributeError, TypeError, pickle.PicklingError):
                if not self.forgives:
                    raise
                return None

        return saved

    def _meant_at(self, original: Callable[..., Any], position: int, writes: bool) -> Callable[..., Any]:
        """A function of compiled code that gets its path as the argument at `position`, or by name."""

        def led(*args: Any, **kwargs: Any) -> Any:
            given = args[position] if len(args) > position else None
            if not isinstance(given, str | os.PathLike):
                return original(*args, **kwargs)
            if writes:
                self._note(given)
            goes = self._target(given, bring=False) if writes else self._source(given)
            return original(*args[:position], goes, *args[position + 1 :], **kwargs)

        return led

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """The guard behind the redirections: no file outside of the scratch folder is opened for writing."""
        if not self._active or event != "open":
            return
        path, mode, flags = arguments
        writes = bool(set(mode) & set("wax+")) if isinstance(mode, str) else bool(flags & _WRITING)
        meant = self._guarded(path) if writes else None
        if meant is not None:
            raise PermissionError(f"the script is run for inspection, so nothing is written to {meant}")


def _names_of(function: Any) -> list[tuple[Any, str]]:
    """Where the modules imported so far know a function by a name: `tarfile` keeps the built-in `open` as its own."""
    modules = list(sys.modules.values())
    return [(module, name) for module in modules for name, value in _variables(module) if value is function]


def _variables(module: object) -> list[tuple[str, Any]]:
    return list(vars(module).items()) if isinstance(module, ModuleType) else []
