"""Libraries that open files in compiled code: once imported, their functions get the script's own copy of a path."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
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
