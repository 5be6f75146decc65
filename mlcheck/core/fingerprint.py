"""Short digests of the files a program read, so that two runs can be told to have seen the same data.

A file is read whole where that is quick; of a large one the two ends and the middle are, and of a folder the names
and sizes. What was hashed stands beside the digest.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

_DIGITS = 16
_WHOLE = 64 << 20
_SAMPLE = 1 << 20
_ROWS = 12
_MOST_ENTRIES = 200_000


def fingerprints(paths: Iterable[str], root: str) -> dict[str, str]:
    """`file names.txt` -> `228,145 bytes, sha256 0f3a9b1c5d7e2468`, names relative to `root` where below it.

    Where there are more than a dozen files, the folders they lie in take their place. Files that are gone are left out.
    """
    files = sorted({os.path.realpath(path) for path in paths if os.path.isfile(path)})
    if len(files) <= _ROWS:
        told = {f"file {_short(path, root)}": _of_file(path) for path in files}
    else:
        told = {f"folder {_short(path, root)}": _of_folder(path) for path in _folders(files)}
    return {name: value for name, value in told.items() if value}


def _short(path: str, root: str) -> str:
    relative = os.path.relpath(path, os.path.realpath(root))
    return path if relative.split(os.sep)[0] == os.pardir else relative.replace(os.sep, "/")


def _of_file(path: str) -> str:
    try:
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            if size <= _WHOLE:
                return f"{size:,} bytes, sha256 {hashlib.file_digest(file, 'sha256').hexdigest()[:_DIGITS]}"
            digest = hashlib.sha256(str(size).encode())
            for start in (0, (size - _SAMPLE) // 2, size - _SAMPLE):
                file.seek(start)
                digest.update(file.read(_SAMPLE))
    except OSError:
        return ""
    return f"{size:,} bytes, sha256 of its size, ends and middle {digest.hexdigest()[:_DIGITS]}"


def _folders(files: list[str]) -> list[str]:
    """At most a dozen folders that hold all files: the deepest are replaced by their parents."""
    folders = {os.path.dirname(path) for path in files}
    while len(folders) > _ROWS:
        deepest = max(folder.count(os.sep) for folder in folders)
        folders = {os.path.dirname(folder) if folder.count(os.sep) == deepest else folder for folder in folders}
    return sorted(folder for folder in folders if folders.isdisjoint(map(str, Path(folder).parents)))


def _of_folder(path: str) -> str:
    digest, count, total = hashlib.sha256(), 0, 0
    for name, size in _listing(path):
        if count == _MOST_ENTRIES:
            return f"more than {count:,} files: not compared"
        digest.update(f"{name}\0{size}\0".encode("utf-8", "surrogatepass"))
        count, total = count + 1, total + size
    return f"{count:,} files, {total:,} bytes, sha256 of names and sizes {digest.hexdigest()[:_DIGITS]}"


def _listing(folder: str) -> Iterator[tuple[str, int]]:
    """Every file below `folder` with its size, in the order of the names."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        for name in sorted(names):
            path = os.path.join(place, name)
            try:
                yield os.path.relpath(path, folder).replace(os.sep, "/"), os.stat(path).st_size
            except OSError:
                continue
