"""From an entry point, `module:Name` or `path/to/file.py:Name`, to the trial it names."""

from __future__ import annotations

import difflib
import importlib
import inspect
import os
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import nn

from mlcheck.trial import functions, lightning
from mlcheck.trial.config import Hyperparameters, hyperparameters, read_config
from mlcheck.trial.determined import adapter, package
from mlcheck.trial.determined.api import PyTorchTrial
from mlcheck.trial.trial import EntryError, Trial

_ACCEPTED = (
    "an entry point is a script (train.py), a class derived from determined.pytorch.PyTorchTrial or from "
    "LightningModule, or a function without required arguments that returns model, optimizer, loss and training loader"
)


@dataclass(frozen=True)
class EntryOptions:
    """What goes with the entry point. `hparams` sets hyperparameters by (dotted) name, over the config's.

    `seed` defaults to the config's experiment seed, then 0; `device` to the GPU where there is one.
    `prep` names a function (`module:function` or `file.py:function`) called before the entry is imported.
    `arguments` are those of a script's own command line.
    """

    config: Path | None = None
    hparams: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    device: str | None = None
    prep: str | None = None
    arguments: tuple[str, ...] = ()


def load_trial(entry: str, options: EntryOptions = EntryOptions()) -> Trial:
    """Import what `entry` names and make a trial of it.

    Determined's package is replaced by a stand-in first, for the rest of the process. Raises EntryError with
    one sentence for what the user can put right, RejectedConfig where the trial refuses its hyperparameters;
    whatever the user's own code raises passes through.
    """
    config = read_config(options.config) if options.config else None
    source = str(options.config) if options.config else ""
    values = hyperparameters(config or {}, options.hparams, source)
    seed = _seed(options, config or {})
    hides_real = package.install(
        package.ClusterInfo(package.TrialInfo(values, config, seed)) if config is not None else None
    )
    if options.prep:
        _put_folder_first(entry)
        prepare = _find(options.prep)
        if not callable(prepare):
            raise EntryError(f"the prep `{options.prep}` must be a function, not {_kind(prepare)}")
        prepare()
    if entry.endswith(".py"):
        _seed_everything(seed)
        return _script(Path(entry), options.arguments)
    target = _find(entry)
    _seed_everything(seed)
    trial = _adapt(target, entry, values, config, seed, _device(options.device))
    if hides_real and isinstance(target, type):
        trial.notices.append("the installed `determined` package is replaced by mlcheck's stand-in")
    return trial


def _adapt(
    target: Any,
    entry: str,
    values: Hyperparameters,
    config: dict[str, Any] | None,
    seed: int,
    device: torch.device,
) -> Trial:
    if isinstance(target, type) and issubclass(target, PyTorchTrial):
        return adapter.build(target, entry, _place(target, entry), adapter.settings(values, config, seed, device))
    if lightning.is_lightning_module(target):
        return _scripts()(lightning.fit_of(target, entry, values), _place(target, entry))
    if isinstance(target, FunctionType):
        return functions.build(target, entry, _place(target, entry), values, device)
    raise EntryError(f"`{entry}` is {_kind(target)}, which cannot be driven: {_ACCEPTED}")


def _script(path: Path, arguments: tuple[str, ...]) -> Trial:
    if not path.is_file():
        raise EntryError(_no_file(path))
    from mlcheck.trial.script.program import Script

    return _scripts()(Script(path, arguments), (str(path), 1))


def _scripts() -> Callable[[Any, tuple[str, int]], Trial]:
    """The adapter for programs that train by themselves."""
    try:
        from mlcheck.trial.script.adapter import build

        return build
    except ModuleNotFoundError as error:
        if error.name != "greenlet":
            raise
        raise EntryError("to run a program step by step, greenlet is needed: pip install greenlet") from None


def _find(entry: str) -> Any:
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


def _import_file(path: Path) -> ModuleType:
    """Run a file as the module of its name, its folder first on the path, as `python path` would have it."""
    if not path.is_file():
        raise EntryError(_no_file(path))
    _put_first(str(path.resolve().parent))
    name = path.stem if path.stem not in sys.stdlib_module_names else f"{path.stem}_entry"
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


def _no_file(path: Path) -> str:
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


def _put_folder_first(entry: str) -> None:
    """Let a prep function import, and change, the modules beside the entry point."""
    where = Path(entry if entry.endswith(".py") else entry.rpartition(":")[0])
    _put_first(str(where.resolve().parent if where.suffix == ".py" else Path.cwd()))


def _put_first(folder: str) -> None:
    if sys.path[:1] != [folder]:
        sys.path.insert(0, folder)


def _did_you_mean(near: list[str]) -> str:
    return f"; did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else ""


def _place(target: Any, entry: str) -> tuple[str, int]:
    """File and line of the definition; the path as the user gave it, or relative to the working folder."""
    try:
        file = Path(inspect.getsourcefile(target) or "")
        line = inspect.getsourcelines(target)[1]
    except (OSError, TypeError):
        return entry.rpartition(":")[0], 0
    given = Path(entry.rpartition(":")[0])
    if given.is_file() and given.resolve() == file.resolve():
        return str(given), line
    return os.path.relpath(file) if file.is_relative_to(Path.cwd()) else str(file), line


def _kind(target: Any) -> str:
    if isinstance(target, type) and issubclass(target, nn.Module):
        return f"the model class {target.__name__} alone"
    if isinstance(target, type):
        return f"the class {target.__name__}"
    if isinstance(target, ModuleType):
        return "a module"
    return f"an object of type {type(target).__name__}"


def _seed(options: EntryOptions, config: Mapping[str, Any]) -> int:
    declared = config.get("reproducibility")
    experiment_seed = declared.get("experiment_seed") if isinstance(declared, Mapping) else None
    return int(options.seed if options.seed is not None else experiment_seed or 0)


def _seed_everything(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    try:
        return torch.device(name)
    except RuntimeError:
        raise EntryError(f"`{name}` is no device: write `cpu`, `cuda` or `cuda:1`") from None
