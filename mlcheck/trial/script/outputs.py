"""Keeps what a script writes away from the user's files: it lands in a scratch folder, where the script finds it again.

Python's own ways to write, rename and remove are led there, and `torch.save`, TorchScript and safetensors with them.
So are the usual libraries that write from compiled code. An audit hook refuses other ways to open a file for writing.
What any other library writes from compiled code, or a program that the script starts, is not seen here.
"""

from __future__ import annotations

import builtins
import functools
import multiprocessing.util
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from mlcheck.trial.after_import import AfterImport, owner_of
from mlcheck.trial.resumption import Loaded
from mlcheck.trial.script.compiled import compiled_files, kept_openers
from mlcheck.trial.script.entries import Entries, really_exists
from mlcheck.trial.script.libraries import OPENERS, led_by
from mlcheck.trial.script.refusals import refusals
from mlcheck.trial.script.scratch import Scratch
from mlcheck.trial.traceback import user_line

_LEADS = "_mlcheck_leads"
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Outputs:
    """While installed, writes go to the scratch folder. With `forgives`, a checkpoint of what cannot be pickled is
    left out: while a script is examined, some of what it saves has been replaced. `saves` says that it calls
    `torch.save`, and `loaded` are files of its own that it read back.
    """

    def __init__(self, scratch: Path) -> None:
        self.scratch = Scratch(os.path.realpath(scratch))
        self._stack = ExitStack()
        self.forgives = False
        self.saves = False
        self.loaded: dict[str, Loaded] = {}

    def install(self) -> None:
        multiprocessing.util.get_temp_dir()  # sockets of workers have short paths: not below the scratch folder
        self.scratch.make()
        self._set(tempfile, "tempdir", self.scratch.temporary)
        self._set(sys, "dont_write_bytecode", True)
        opened = self._opening(_plain(builtins.open))
        for table, key in [*kept_openers()]:
            self._stack.callback(table.__setitem__, key, table[key])
            table[key] = opened
        for owner, name in _names_of(builtins.open):
            self._set(owner, name, opened)
        self._lead(os, self._opening_by_flags, "open")
        self._lead(os, self._finding, "stat", "lstat", "access", "statvfs")
        self._lead(os, self._entering, "chdir")
        self._lead(os, self._listing, "listdir")
        self._lead(os, self._scanning, "scandir")
        self._lead(os, self._writing, "mkdir", "chmod", "utime", "truncate")
        self._lead(os, self._removing, "remove", "unlink", "rmdir")
        self._lead(shutil, self._removing, "rmtree")
        self._lead(os, self._moving, "rename", "replace")
        self._lead(os, self._linking, "symlink", "link")
        self._lead(torch, self._saving, "save")
        self._lead(torch, self._loading, "load")
        for owner, name, position, writes in compiled_files():
            self._lead(owner, functools.partial(self._meant_at, position=position, writes=writes), name)
        late = AfterImport((opener.module for opener in OPENERS), self._lead_library)
        late.install()
        self._stack.callback(late.remove)
        refusals().append(self._refuse)
        self._stack.callback(refusals().remove, self._refuse)

    def uninstall(self) -> None:
        self._stack.close()

    def _lead(self, owner: Any, leading: Callable[[Any], Callable[..., Any]], *names: str) -> None:
        for name in names:
            original = _plain(getattr(owner, name))
            led = leading(original)
            setattr(led, _LEADS, original)
            self._set(owner, name, led)

    def _lead_library(self, module: ModuleType) -> None:
        for opener in OPENERS:
            owner, name = owner_of(module, opener.name) if opener.module == module.__name__ else (None, "")
            if owner is not None:
                self._lead(owner, functools.partial(led_by, self.scratch, opener), name)

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._stack.callback(setattr, owner, name, getattr(owner, name))
        setattr(owner, name, value)

    def _opening(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
            if not set(mode) & set("wax+"):
                return original(self.scratch.source(file), mode, *args, **kwargs)
            if "x" in mode and os.path.lexists(file):
                raise FileExistsError(17, os.strerror(17), os.fsdecode(file))
            self.scratch.note(file)
            return original(self.scratch.target(file, bring="w" not in mode), mode, *args, **kwargs)

        setattr(opened, _LEADS, original)
        opened.outputs = self  # type: ignore[attr-defined]
        return opened

    def _opening_by_flags(self, original: Callable[..., int]) -> Callable[..., int]:
        def opened(path: Any, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
            if dir_fd is not None:
                return original(path, flags, mode, dir_fd=dir_fd)
            if not flags & _WRITING:
                return original(self.scratch.source(path), flags, mode)
            self.scratch.note(path)
            return original(self.scratch.target(path, bring=not flags & os.O_TRUNC), flags, mode)

        return opened

    def _finding(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def found(path: Any, *args: Any, **kwargs: Any) -> Any:
            there = path if kwargs.get("dir_fd") is not None else self.scratch.source(path)
            return original(there, *args, **kwargs)

        return found

    def _entering(self, original: Callable[[Any], None]) -> Callable[[Any], None]:
        def entered(path: Any) -> None:
            """The user's own folder, where there is one: what is read by relative names lies there."""
            meant = self.scratch.guarded(path)
            original(path if meant is None or really_exists(meant) else self.scratch.source(path))

        return entered

    def _listing(self, original: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def listed(path: Any = ".") -> list[Any]:
            return list(dict.fromkeys(name for folder in self.scratch.both(path) for name in original(folder)))

        return listed

    def _scanning(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def scanned(path: Any = ".") -> Any:
            return Entries({entry.name: entry for folder in self.scratch.both(path) for entry in original(folder)})

        return scanned

    def _writing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def written(path: Any, *args: Any, **kwargs: Any) -> Any:
            if kwargs.get("dir_fd") is not None:
                return original(path, *args, **kwargs)
            if original.__name__ == "mkdir" and self.scratch.stands_from_before(path):
                return None
            if original.__name__ == "mkdir" and os.path.lexists(path):
                raise FileExistsError(17, os.strerror(17), os.fsdecode(path))
            return original(self.scratch.target(path, bring=True), *args, **kwargs)

        return written

    def _removing(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def removed(path: Any, *args: Any, **kwargs: Any) -> Any:
            meant = self.scratch.guarded(path)
            if meant is None or kwargs.get("dir_fd") is not None or not os.path.lexists(path):
                original(path, *args, **kwargs)
                return self.scratch.make() if original.__name__ == "rmtree" else None
            self.scratch.note(path)
            if really_exists(self.scratch.files + meant):
                original(self.scratch.files + meant, *args, **kwargs)
            self.scratch.removed.add(meant)
            return None

        return removed

    def _moving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def moved(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            comes, goes = self.scratch.source(src), self.scratch.target(dst, bring=False)
            self.scratch.note(dst)
            meant = self.scratch.guarded(src)
            if meant is None or comes is not src:
                original(comes, goes, *args, **kwargs)
            elif os.path.isdir(src):
                shutil.copytree(src, goes)
            else:
                shutil.copyfile(src, goes)
            if meant is not None:
                self.scratch.removed.add(meant)

        return moved

    def _linking(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def linked(src: Any, dst: Any, *args: Any, **kwargs: Any) -> Any:
            return original(src, self.scratch.target(dst, bring=False), *args, **kwargs)

        return linked

    def _saving(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def saved(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
            self.saves = True
            is_path = isinstance(f, str | os.PathLike)
            if is_path:
                self.scratch.note(f)
            try:
                return original(obj, self.scratch.target(f, bring=False) if is_path else f, *args, **kwargs)
            except (AttributeError, TypeError, pickle.PicklingError):
                if not self.forgives:
                    raise
                return None

        return saved

    def _loading(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def loaded(f: Any, *args: Any, **kwargs: Any) -> Any:
            lies_at = self.scratch.source(f)
            if lies_at is not f:
                self.loaded[lies_at] = Loaded(os.path.abspath(os.fsdecode(f)), lies_at, user_line())
            return original(lies_at, *args, **kwargs)

        return loaded

    def _meant_at(self, original: Callable[..., Any], position: int, writes: bool) -> Callable[..., Any]:
        """A function of compiled code that gets its path as the argument at `position`, or by name."""

        def led(*args: Any, **kwargs: Any) -> Any:
            given = args[position] if len(args) > position else None
            if not isinstance(given, str | os.PathLike):
                return original(*args, **kwargs)
            if writes:
                self.scratch.note(given)
            goes = self.scratch.target(given, bring=False) if writes else self.scratch.source(given)
            return original(*args[:position], goes, *args[position + 1 :], **kwargs)

        return led

    def _refuse(self, path: Any, mode: Any, flags: int) -> None:
        """The guard behind the redirections: no file outside of the scratch folder is opened for writing."""
        if getattr(builtins.open, "outputs", self) is not self:
            return
        writes = bool(set(mode) & set("wax+")) if isinstance(mode, str) else bool(flags & _WRITING)
        meant = self.scratch.guarded(path) if writes else None
        if meant is not None:
            raise PermissionError(f"the script is run for inspection, so nothing is written to {meant}")


def _plain(function: Any) -> Any:
    """A function as it was before a script led it elsewhere: of two under examination, the later has its own way."""
    return getattr(function, _LEADS, function)


def _names_of(function: Any) -> list[tuple[Any, str]]:
    """Where the modules imported so far know a function by a name: `tarfile` keeps the built-in `open` as its own."""
    modules = list(sys.modules.values())
    return [(module, name) for module in modules for name, value in _variables(module) if value is function]


def _variables(module: object) -> list[tuple[str, Any]]:
    return list(vars(module).items()) if isinstance(module, ModuleType) else []
