"""Imports what an entry point names, and says in one sentence why it cannot."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec, spec_from_file_location
from itertools import chain
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from mlcheck.core.notebook import is_notebook
from mlcheck.core.source_text import is_code
from mlcheck.trial.determined import package
from mlcheck.trial.trial import EntryError, is_program

FORMS = "`module:Name`, `path/to/file.py:Name`, or a program as `train.py`, `train.ipynb` or `package.train`"


def find_object(entry: str) -> Any:
    """The object an entry point names."""
    where, separator, name = entry.rpartition(":")
    if not separator or not where or not name:
        raise EntryError(f"`{entry}` names no entry point: write {FORMS}")
    if is_notebook(where):
        raise EntryError(f"`{entry}`: a notebook is run whole, from its first cell to its last: name it alone, {where}")
    is_file = where.endswith(".py") or os.sep in where
    module = _import_file(Path(where), entry) if is_file else _import_module(where, entry)
    if not hasattr(module, name):
        own = [key for key, value in vars(module).items() if isinstance(value, type | FunctionType)]
        near = difflib.get_close_matches(name, own, n=2, cutoff=0.5)
        raise EntryError(f"there is no `{name}` in {module.__file__ or where}{_did_you_mean(near)}")
    return getattr(module, name)


def module_of(entry: str) -> ModuleType:
    """The module that `find_object` has imported for an entry point."""
    where = entry.rpartition(":")[0]
    return sys.modules[_module_name(Path(where)) if where.endswith(".py") or os.sep in where else where]


def _module_name(path: Path) -> str:
    return path.stem if path.stem not in sys.stdlib_module_names else f"{path.stem}_entry"


def _import_file(path: Path, entry: str) -> ModuleType:
    """Run a file as the module of its name, its folder first on the path, as `python path` would have it."""
    if not path.is_file():
        raise EntryError(no_file(path))
    _put_first(str(path.resolve().parent))
    name = _module_name(path)
    spec = spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        explain(error, entry)
        raise
    return module


def no_file(path: Path) -> str:
    folder = path.parent if path.parent.is_dir() else Path()
    files = [other.name for other in folder.glob("*") if is_code(other.name)]
    near = difflib.get_close_matches(path.name, files, n=2)
    return f"there is no file {path}{_did_you_mean([str(folder / name) for name in near])}"


def find_module(name: str) -> tuple[str, Path]:
    """What `python -m name` would run from the working folder, with its file; nothing is imported.

    A package is run by its `__main__`. Raises EntryError where there is none of the name.
    """
    importlib.invalidate_caches()
    folders: list[str] | None = [str(Path.cwd()), *sys.path]
    so_far = ""
    spec = None
    for part in name.split("."):
        so_far = f"{so_far}.{part}" if so_far else part
        spec = PathFinder.find_spec(so_far, folders) if part and folders else None
        if spec is None:
            raise EntryError(f"there is no module `{so_far}` in {Path.cwd()}: write {FORMS}")
        folders = spec.submodule_search_locations and list(spec.submodule_search_locations)
    if folders:
        return find_module(f"{name}.__main__")
    if spec is None or not (spec.origin or "").endswith(".py"):
        raise EntryError(f"`{name}` is no module of Python's to run: write {FORMS}")
    return name, Path(os.path.relpath(str(spec.origin)))


def _import_module(name: str, entry: str) -> ModuleType:
    _put_first(str(Path.cwd()))
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            files = [path.stem for path in Path.cwd().glob("*.py")]
            near = difflib.get_close_matches(name, files, n=2)
            raise EntryError(f"there is no module `{name}` in {Path.cwd()}{_did_you_mean(near)}") from None
        explain(error, entry)
        raise
    except ImportError as error:
        explain(error, entry)
        raise


def explain(error: ImportError, entry: str) -> None:
    """Raise EntryError for the import errors whose cause is mlcheck or the way the entry point is written."""
    where, _, name = (entry, "", "") if is_program(entry) else entry.rpartition(":")
    missing = error.name or ""
    if missing.split(".")[0] == package.ROOT:
        raise EntryError(
            f"{where} imports a part of Determined that mlcheck does not stand in for ({error}): "
            "it runs PyTorchTrial classes, and loops that report to the core API"
        ) from error
    if "no known parent package" in str(error):
        named, folder = _in_package(Path(where if where.endswith(".py") else f"{where}.py"))
        told = f"`{named}:{name}`" if name else f"`{named}`"
        told += f", from {folder}" if folder != Path.cwd() else ""
        raise EntryError(f"{where} uses relative imports, so it is part of a package: name it {told}") from error


def _in_package(path: Path) -> tuple[str, Path]:
    """The dotted name of a file that is part of a package, and the folder from which it has that name."""
    names, folder = [path.stem], path.resolve().parent
    while len(names) == 1 or (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names), folder


def folder_that_holds(module: str, entry: str) -> Path | None:
    """Of the folders that the entry point's file lies in, the one with a module's code.

    Above the working folder it is only the package of that name that the file is itself a part of.
    """
    where = Path(entry if is_program(entry) else entry.rpartition(":")[0])
    package, inner = module.partition(".")[0], Path(*module.split("."))
    if not is_code(where.name):
        return None
    beside = where.parents if not where.is_absolute() else ()
    around = (above.parent for above in where.resolve().parents if above.name == package)
    held = (above for above in chain(beside, around) if (above / inner).is_dir() or (above / f"{inner}.py").is_file())
    return next(held, None)


def put_folder_first(entry: str) -> None:
    """Let a prep function import, and change, the modules beside the entry point."""
    where = Path(entry if is_program(entry) else entry.rpartition(":")[0])
    _put_first(str(where.resolve().parent if is_code(where.name) else Path.cwd()))


def _put_first(folder: str) -> None:
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


def _did_you_mean(near: list[str]) -> str:
    return f"; did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else ""
