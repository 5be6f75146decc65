"""Which Python files and notebooks are meant by the paths on the command line, and how an import calls each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from mlcheck.core.mistake import Mistake
from mlcheck.core.notebook import SUFFIX
from mlcheck.lint.files.gitignore import Pattern, is_ignored, patterns_above, read_patterns

_SOURCE = (".py", SUFFIX)
_NOT_SOURCE = {"__pycache__", "node_modules", "site-packages"}
_BUILT = {"build", "dist"}
_PROJECT_FILES = ("pyproject.toml", "setup.py", "setup.cfg")


class MissingPath(Mistake):
    """A path on the command line that does not exist."""


class PythonFile(NamedTuple):
    """A file to lint: its path as the user would write it, and its dotted module name."""

    path: str
    module: str


class Found(NamedTuple):
    """The files below the given paths, each once, in a stable order, and the folders that could not be read."""

    files: list[PythonFile]
    notices: list[str]


def discover(paths: Sequence[str], unsaved: str = "") -> Found:
    """Walk the folders among `paths` in sorted order; a file that is named is always taken, whatever its name.

    Inside a folder these are left out: hidden folders, virtual environments, caches, installed packages, `build`
    and `dist` that are no packages, and what .gitignore excludes. Linked folders are not entered, so that no
    walk is endless. `unsaved` names a file that is taken whether it exists or not. Raises MissingPath.
    """
    for path in paths:
        if not os.path.exists(path):
            raise MissingPath(f"{path}: no such file or folder")
    folders = [_folder_of(path) for path in ((*paths, unsaved) if unsaved else paths)]
    base = os.path.commonpath(folders) if folders else os.curdir
    notices: list[str] = []
    names = _ModuleNames(base)
    files, seen = [], set()
    for given in paths:
        walk = _walk(given, patterns_above(given), notices) if os.path.isdir(given) else iter([os.path.normpath(given)])
        for path in walk:
            absolute = os.path.abspath(path)
            if absolute not in seen:
                seen.add(absolute)
                files.append(PythonFile(path, names.of(absolute)))
    if unsaved and os.path.abspath(unsaved) not in seen:
        files.append(PythonFile(unsaved, names.of(os.path.abspath(unsaved))))
    return Found(files, notices)


def _folder_of(path: str) -> str:
    absolute = os.path.abspath(path)
    return absolute if os.path.isdir(absolute) else os.path.dirname(absolute)


def _walk(folder: str, patterns: tuple[Pattern, ...], notices: list[str]) -> Iterator[str]:
    """Python files and notebooks at or below `folder`: its own first, then those of its folders, both by name."""
    patterns += read_patterns(folder)
    try:
        with os.scandir(folder) as listing:
            entries = sorted(listing, key=lambda entry: entry.name)
    except OSError as error:
        notices.append(f"{folder}: cannot be listed: {error.strerror}")
        return
    below = []
    for entry in entries:
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_folder:
            if _holds_source(entry):
                below.append(entry)
        elif _is_source(entry.name) and _is_file(entry) and not _ignored(entry, False, patterns):
            yield os.path.normpath(entry.path)
    for entry in below:
        if not _ignored(entry, True, patterns):
            yield from _walk(entry.path, patterns, notices)


def _is_file(entry: os.DirEntry[str]) -> bool:
    """The folder's listing says so; only a link is looked up, and one that leads to itself is none."""
    try:
        return entry.is_file()
    except OSError:
        return False


def _is_source(name: str) -> bool:
    """Not `._train.py`, which macOS writes beside `train.py`: it holds what its own file system cannot."""
    return name.endswith(_SOURCE) and not name.startswith("._")


def _ignored(entry: os.DirEntry[str], is_folder: bool, patterns: tuple[Pattern, ...]) -> bool:
    return bool(patterns) and is_ignored(os.path.abspath(entry.path), is_folder, patterns)


def _holds_source(folder: os.DirEntry[str]) -> bool:
    """Whether a folder met on the way may hold the user's own code."""
    if folder.name.startswith(".") or folder.name in _NOT_SOURCE:
        return False
    if folder.name in _BUILT and not _has(folder.path, "__init__.py"):
        return False
    return not (_has(folder.path, "pyvenv.cfg") or _has(folder.path, "conda-meta"))


def _has(folder: str, name: str) -> bool:
    return os.path.exists(os.path.join(folder, name))


class _ModuleNames:
    """Names modules as an import would: from the outermost package, or from the folder common to all given paths."""

    def __init__(self, base: str) -> None:
        self._base = base
        self._packages: dict[str, str] = {}
        self._outermost: dict[str, str] = {}

    def of(self, path: str) -> str:
        """The dotted name of the file at the absolute `path`; a package's `__init__.py` is the package."""
        folder, file = os.path.split(path)
        stem = file.removesuffix(".py")
        prefix = self._package(folder)
        if stem == "__init__" and prefix:
            return prefix
        return f"{prefix}.{stem}" if prefix else stem

    def _package(self, folder: str) -> str:
        if folder not in self._packages:
            self._packages[folder] = self._regular(folder) if _has(folder, "__init__.py") else self._plain(folder)
        return self._packages[folder]

    def _regular(self, folder: str) -> str:
        """The name of a package with `__init__.py`, from the outermost one such.

        A second one so called, of a program beside the first, is named by its way.
        """
        parent, name = os.path.split(folder)
        if _has(parent, "__init__.py"):
            outer = self._package(parent)
            return f"{outer}.{name}" if outer else name
        return name if self._outermost.setdefault(name, folder) == folder else self._plain(folder) or name

    def _plain(self, folder: str) -> str:
        """The name of a folder without `__init__.py`: its way from the base, or from the `src` of a project."""
        if folder == self._base or not folder.startswith(os.path.join(self._base, "")):
            return ""
        parent, name = os.path.split(folder)
        if name == "src" and any(_has(parent, file) for file in _PROJECT_FILES):
            return ""
        outer = self._package(parent)
        return f"{outer}.{name}" if outer else name
