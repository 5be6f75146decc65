"""Imports what an entry point names, and says in one sentence why it cannot."""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from mlcheck.trial.determined import package
from mlcheck.trial.trial import EntryError


def find_object(entry: str) -> Any:
    """The object an entry point names."""
    where, separator, name = entry.rpartition(":")
    if not separator or not where or not name:
        raise EntryError(f"`{entry}` names no entry point: write `module:Name` or `path/to/file.py:Name`")
    module = _import_file(Path(where)) if where.endswith(".py") or os.sep in where else _import_module(where)
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


def _import_file(path: Path) -> ModuleType:
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
        _explain(error, str(path))
        raise
    return module


def no_file(path: Path) -> str:
    folder = path.parent if path.parent.is_dir() else Path()
    near = difflib.get_close_matches(path.name, [other.name for other in folder.glob("*.py")], n=2)
    return f"there is no file {path}{_did_you_mean([str(folder / name) for name in near])}"


def _import_module(name: str) -> ModuleType:
    _put_first(str(Path.cwd()))
    importlib.invalidate_caches()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            files = [path.stem for path in Path.cwd().glob("*.py")]
            near = difflib.get_close_matches(name, files, n=2)
            raise EntryError(f"there is no module `{name}` in {Path.cwd()}{_did_you_mean(near)}") from None
        _explain(error, name)
        raise
    except ImportError as error:
        _explain(error, name)
        raise


def _explain(error: ImportError, where: str) -> None:
    """Raise EntryError for the import errors whose cause is mlcheck or the way the entry point is written."""
    missing = error.name or ""
    if missing.split(".")[0] == package.ROOT:
        raise EntryError(
            f"{where} imports a part of Determined that mlcheck does not stand in for ({error}): "
            "it runs PyTorchTrial classes only"
        ) from error
    if "relative import" in str(error):
        raise EntryError(
            f"{where} uses relative imports, so it is part of a package: name it `package.module:Name`, "
            "from the folder above the package"
        ) from error


def put_folder_first(entry: str) -> None:
    """Let a prep function import, and change, the modules beside the entry point."""
    where = Path(entry if entry.endswith(".py") else entry.rpartition(":")[0])
    _put_first(str(where.resolve().parent if where.suffix == ".py" else Path.cwd()))


def _put_first(folder: str) -> None:
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


def _did_you_mean(near: list[str]) -> str:
    return f"; did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else ""
