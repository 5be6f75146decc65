"""Files are replaced whole or not at all: whatever kills a command, what was there before stays or all of it is new."""

from __future__ import annotations

import os
import stat
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_FORGOTTEN_AFTER_S = 3600.0


def replace_file(path: str | Path, content: str | bytes) -> None:
    """Write `content` beside the file and put it in its place, with its mode. Raises OSError, and changes nothing then.

    A link is followed; what is no file, as a pipe or /dev/stdout, is written to. Text that is no UTF-8 is escaped.
    """
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    if os.path.exists(path) and not os.path.isfile(path):
        with open(path, "wb") as pipe:
            pipe.write(data)
        return
    target = os.path.realpath(path)
    partial = f"{target}.{os.getpid()}.partial"
    try:
        with open(partial, "wb") as file:
            file.write(data)
        if os.path.exists(target):
            os.chmod(partial, stat.S_IMODE(os.stat(target).st_mode))
        os.replace(partial, target)
    except OSError:
        if os.path.exists(partial):
            os.remove(partial)
        raise
    _tidy(target)


def _tidy(target: str) -> None:
    """Remove what killed commands left half written beside the file."""
    folder, name = os.path.split(target)
    try:
        with os.scandir(folder) as entries:
            left = [entry for entry in entries if entry.name.startswith(f"{name}.") and entry.name.endswith(".partial")]
        for entry in left:
            status = entry.stat(follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > _FORGOTTEN_AFTER_S:
                os.remove(entry.path)
    except OSError:
        return
