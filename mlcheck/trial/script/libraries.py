"""Libraries that open files in compiled code: once imported, their functions get the script's own copy of a path."""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, Literal, NamedTuple
from urllib.parse import quote

from mlcheck.trial.script.entries import really_exists
from mlcheck.trial.script.scratch import Scratch

_LARGE = 1 << 28
How = Literal["r", "w", "mode", "database"]


class Opener(NamedTuple):
    """`name` of a module, or of a class in it, that takes a path by position or keyword, and what it does there.

    With `mode`, its next argument says how the file is opened; a `database` may be read and changed.
    """

    module: str
    name: str
    position: int
    keyword: str
    how: How


OPENERS = (
    Opener("h5py", "File.__init__", 1, "name", "mode"),
    Opener("tables", "open_file", 0, "filename", "mode"),
    Opener("cv2", "imwrite", 0, "filename", "w"),
    Opener("cv2", "imread", 0, "filename", "r"),
    Opener("pyarrow", "memory_map", 0, "path", "mode"),
    Opener("pyarrow.parquet", "write_table", 1, "where", "w"),
    Opener("pyarrow.parquet", "read_table", 0, "source", "r"),
    Opener("pyarrow.parquet", "ParquetWriter.__init__", 1, "where", "w"),
    Opener("pyarrow.parquet", "ParquetFile.__init__", 1, "source", "r"),
    Opener("pyarrow.feather", "write_feather", 1, "dest", "w"),
    Opener("pyarrow.feather", "read_feather", 0, "source", "r"),
    Opener("pandas", "DataFrame.to_parquet", 1, "path", "w"),
    Opener("pandas", "read_parquet", 0, "path", "r"),
    Opener("soundfile", "write", 0, "file", "w"),
    Opener("soundfile", "read", 0, "file", "r"),
    Opener("sqlite3", "connect", 0, "database", "database"),
    Opener("sqlite3.dbapi2", "connect", 0, "database", "database"),
    Opener("torch.export", "save", 1, "f", "w"),
    Opener("torch.export", "load", 0, "f", "r"),
    Opener("torch.autograd.profiler", "profile.export_chrome_trace", 1, "path", "w"),
)


def owner_of(opener: Opener, module: ModuleType) -> tuple[Any, str]:
    """Where the function hangs, and its own name; the owner is None where this version has no such function."""
    *classes, name = opener.name.split(".")
    owner: Any = module
    for inner in classes:
        owner = getattr(owner, inner, None)
    return (owner if hasattr(owner, name) else None), name


def led_by(scratch: Scratch, opener: Opener, original: Callable[..., Any]) -> Callable[..., Any]:
    """The function with its path led to where the script's own copy is, or is to be."""

    @functools.wraps(original)
    def led(*args: Any, **kwargs: Any) -> Any:
        by_position = len(args) > opener.position
        given = args[opener.position] if by_position else kwargs.get(opener.keyword)
        if not isinstance(given, str | os.PathLike) or "://" in os.fspath(given) or scratch.guarded(given) is None:
            return original(*args, **kwargs)
        if opener.how == "database":
            goes, more = _database(scratch, given, kwargs)
            kwargs |= more
        else:
            after = args[opener.position + 1] if len(args) > opener.position + 1 else kwargs.get("mode", "r")
            goes = _led(scratch, given, after if opener.how == "mode" else opener.how)
        if by_position:
            args = (*args[: opener.position], goes, *args[opener.position + 1 :])
        else:
            kwargs[opener.keyword] = goes
        return original(*args, **kwargs)

    return led


def _led(scratch: Scratch, path: Any, mode: str) -> Any:
    if mode == "r" or (mode in ("x", "w-") and os.path.lexists(path)):
        return scratch.source(path)
    scratch.note(path)
    return scratch.target(path, bring=mode in ("a", "r+"))


def _database(scratch: Scratch, path: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
    """A copy of a database, for a script may change what it opens; a large one is opened to be read only."""
    if kwargs.get("uri") or os.fspath(path) in ("", ":memory:"):
        return path, {}
    meant = os.path.abspath(path)
    own = really_exists(scratch.files + meant)
    if not own and os.path.isfile(path) and os.path.getsize(path) > _LARGE:
        return f"file:{quote(meant)}?mode=ro", {"uri": True}
    if not os.path.lexists(path):
        scratch.note(path)
    return scratch.target(path, bring=True), {}


class AfterImport:
    """Calls `then` with each module of these names as soon as it has been imported."""

    def __init__(self, names: Iterable[str], then: Callable[[ModuleType], None]) -> None:
        self._names, self._then = frozenset(names), then
        self._asking: set[str] = set()

    def install(self) -> None:
        sys.meta_path.insert(0, self)
        for name in sorted(self._names):
            module = sys.modules.get(name)
            if module is not None:
                self._then(module)

    def remove(self) -> None:
        with suppress(ValueError):
            sys.meta_path.remove(self)

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002
        """What the others find, with a word to say after the module has run."""
        if name not in self._names or name in self._asking:
            return None
        self._asking.add(name)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking.discard(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                run(module)
                self._then(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
