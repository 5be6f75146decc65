"""Which files a program reads, its data loaders' processes included, as far as they are opened by Python."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_CODE = (".py", ".pyc", ".pyi", ".so", ".pyd", ".dll", ".dylib", ".pth")
_NO_DATA = frozenset(["site-packages", "dist-packages", "__pycache__", ".git", ".config", ".triton", "matplotlib"])
_SYSTEM = ("/proc", "/sys", "/dev", "/etc", "/usr", "/lib", "/bin")


class Reads:
    """From `begin` on, the paths of files opened for reading are noted in `record`, which forked processes share."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self._noted: set[Any] = set()
        self._descriptor = -1
        self._listens = True

    def begin(self) -> None:
        """For the rest of this process: an audit hook cannot be taken out again."""
        self._descriptor = os.open(self._record, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        sys.addaudithook(self._hear)

    def data(self, apart_from: tuple[str, ...]) -> list[str]:
        """What was read and is neither code nor the system's, a package's nor below `apart_from`."""
        left_out = tuple(os.path.join(os.path.realpath(place), "") for place in (*_installed(), *apart_from))
        with self.unheard():
            noted = os.fsdecode(self._record.read_bytes()).split("\0")
        paths = [path for path in dict.fromkeys(noted) if path and not path.endswith(_CODE)]
        elsewhere = [path for path in paths if _NO_DATA.isdisjoint(Path(path).parts)]
        return [path for path in elsewhere if not os.path.realpath(path).startswith(left_out)]

    @contextmanager
    def unheard(self) -> Iterator[None]:
        """What is read meanwhile is not the program's doing."""
        self._listens = False
        try:
            yield
        finally:
            self._listens = True

    def _hear(self, event: str, given: tuple[Any, ...]) -> None:
        if event != "open" or not self._listens or not isinstance(given[0], str | bytes):
            return
        if given[0] not in self._noted and _reads(*given[1:]):
            self._noted.add(given[0])
            os.write(self._descriptor, os.fsencode(os.path.abspath(os.fsdecode(given[0]))) + b"\0")


def _reads(mode: str | None, flags: int) -> bool:
    """Whether a file opened so is read: by the mode of `open`, or by the flags of `os.open`."""
    if isinstance(mode, str):
        return "r" in mode
    return flags & (os.O_WRONLY | os.O_CREAT) == 0


def _installed() -> set[str]:
    paths = sysconfig.get_paths()
    return {*_SYSTEM, *(paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib"))}
