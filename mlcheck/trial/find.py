"""From an entry point to its trial: `module:Name` or `path/to/file.py:Name`, or a program by its file or module."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import torch
from torch import nn

from mlcheck.trial import functions, lightning, model, trainers
from mlcheck.trial.config import Hyperparameters, hyperparameters, read_config
from mlcheck.trial.construct import arguments_of
from mlcheck.trial.determined import adapter, package
from mlcheck.trial.determined.api import PyTorchTrial
from mlcheck.trial.generators import seed_all
from mlcheck.trial.importing import explain, find_object, module_of, put_folder_first
from mlcheck.trial.planned import Planned, planned_by
from mlcheck.trial.ranges import MIDDLE
from mlcheck.trial.ranks.alone import Alone
from mlcheck.trial.ranks.spawned import Spawned
from mlcheck.trial.script.program import Notebook, left_out, program
from mlcheck.trial.trial import EntryError, EntryOptions, RejectedConfig, Source, Trial, is_program

_ACCEPTED = (
    "an entry point is a script (train.py or package.train), a notebook, a class derived from "
    "determined.pytorch.PyTorchTrial or from LightningModule, a function that returns model, optimizer, loss and "
    "train_loader (or a Trainer, or a LightningModule), or an nn.Module with an `example_batch` beside it"
)

_ELSEWHERE = (0.25, 0.75, 0.0, 1.0)  # of a search space whose middle is rejected


__all__ = ["EntryOptions", "load_trial"]


_PLAIN = EntryOptions()


def load_trial(entry: str, options: EntryOptions = _PLAIN) -> Trial:
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
        put_folder_first(entry)
        prepare = find_object(options.prep)
        if not callable(prepare):
            raise EntryError(f"the prep `{options.prep}` must be a function, not {_kind(prepare)}")
        prepare()
    folder = os.getcwd()
    if is_program(entry):
        trial = _perhaps_alone(lambda: _script(entry, options.arguments), seed, options)
        trial.source = Source(entry, replace(options, seed=seed), folder)
        trial.planned = _planned(options, config, values) or trial.planned
        return trial
    target = find_object(entry)
    trial = _perhaps_alone(lambda: _accepted(target, entry, values, config, seed, options), seed, options)
    by_trainer = any(kind == "script" for kind, _ in trial.record)
    trial.source = Source(entry, replace(options, seed=seed), folder, by_trainer)
    trial.planned = _planned(options, config, values)
    if hides_real and isinstance(target, type):
        trial.notices.append("the installed `determined` package is replaced by mlcheck's stand-in")
    return trial


def _planned(options: EntryOptions, config: dict[str, Any] | None, values: Hyperparameters) -> Planned | None:
    if options.epochs:
        return Planned(options.epochs, "epochs", "--epochs")
    return planned_by(config, values)


def _perhaps_alone(build: Callable[[], Trial], seed: int, options: EntryOptions) -> Trial:
    """The trial; a program that asks its launcher which rank it is hears that it is the only one."""
    alone, spawned = Alone(), Spawned()
    if not options.communicates:
        alone.install()
        spawned.install()
    seed_all(seed)
    trial = None
    try:
        trial = build()
    except (KeyError, ValueError) as error:
        if options.communicates or not alone.expects_launcher(error):
            raise
    if trial is None:  # out of the handler, so that what is raised now does not seem to follow from that error
        seed_all(seed)
        trial = build()
        trial.notices.append("the program expects a launcher such as torchrun: it is examined as the only rank of one")
    if alone.meets:
        trial.slots = max(trial.slots, 2)
    if spawned.processes is not None:
        trial.spawns = spawned.processes
        trial.notices.append(
            f"the program starts its {trial.spawns} processes with torch.multiprocessing.spawn: it is examined as the "
            "first of them, by itself"
        )
    return trial


def _accepted(
    target: Any, entry: str, values: Hyperparameters, config: dict[str, Any] | None, seed: int, options: EntryOptions
) -> Trial:
    """The trial at the middle of its search space; where it refuses that, at the first of a few points it accepts."""
    device = _device(options.device)
    refused: RejectedConfig | None = None
    for share in (MIDDLE, *_ELSEWHERE):
        if refused:
            elsewhere = hyperparameters(config or {}, options.hparams, values.source, share)
            if elsewhere == values:
                continue
            values.clear()
            values.update(elsewhere)  # in place: the cluster's information holds the same mapping
            seed_all(seed)
        try:
            trial = _adapt(target, entry, values, config, seed, device, options)
        except RejectedConfig as error:
            refused = refused or error
            continue
        if refused:
            chosen = ", ".join(f"{name}={value!r}" for name, value in values.items())
            trial.notices.append(f"the trial rejects the middle of its search space ({refused}); examined: {chosen}")
        return trial
    assert refused is not None
    raise refused


def _adapt(
    target: Any,
    entry: str,
    values: Hyperparameters,
    config: dict[str, Any] | None,
    seed: int,
    device: torch.device,
    options: EntryOptions,
) -> Trial:
    if isinstance(target, type) and issubclass(target, PyTorchTrial):
        experiment = adapter.settings(values, config, seed, device)
        experiment = replace(experiment, dtype=options.dtype)
        if options.communicates:
            experiment = replace(
                experiment, rank=options.rank, world=options.world, slots=options.world, communicates=True
            )
        return adapter.build(target, entry, _place(target, entry), experiment)
    if lightning.is_lightning_module(target):
        return _scripts()(lightning.fit_of(target, entry, values), _place(target, entry))
    if isinstance(target, FunctionType):
        return _of_function(target, entry, values, device, options)
    if isinstance(target, nn.Module) or (isinstance(target, type) and issubclass(target, nn.Module)):
        parts = model.parts_of(target, entry, module_of(entry), values)
        name = target.__name__ if isinstance(target, type) else type(target).__name__
        place = _place(target if isinstance(target, type) else type(target), entry)
        return functions.assemble(parts, name, entry, place, device, options)
    if trainers.is_trainer(target):
        raise EntryError(f"`{entry}` is a Trainer that was made already: name a function that makes and returns it")
    raise EntryError(f"`{entry}` is {_kind(target)}, which cannot be driven: {_ACCEPTED}")


def _of_function(
    function: FunctionType, entry: str, values: Hyperparameters, device: torch.device, options: EntryOptions
) -> Trial:
    """What it returns says what it is: the parts of a program, or something that trains by itself."""
    place = _place(function, entry)
    arguments = arguments_of(function, entry, values)
    returned = function(**arguments)
    if trainers.is_trainer(returned):
        return _scripts()(trainers.Training(function.__name__, function, arguments), place)
    if lightning.is_fit(returned):
        return _scripts()(lightning.fit_of_function(function, function.__name__, arguments), place)
    if isinstance(returned, nn.Module):
        returned = model.completed(returned, entry, module_of(entry))
    return functions.assemble(returned, function.__name__, entry, place, device, options)


def _script(entry: str, arguments: tuple[str, ...]) -> Trial:
    found = program(entry, arguments)
    cells = left_out(found) if isinstance(found, Notebook) else ()
    try:
        trial = _scripts()(found, (str(found.path), 1))
    except ImportError as error:
        explain(error, entry)
        raise
    if cells:
        numbers = ", ".join(map(str, cells))
        trial.notices.append(f"{found.name}: no Python, and left out: {'cells' if cells[1:] else 'cell'} {numbers}")
    return trial


def _scripts() -> Callable[[Any, tuple[str, int]], Trial]:
    """The adapter for programs that train by themselves."""
    try:
        from mlcheck.trial.script.adapter import build

        return build
    except ModuleNotFoundError as error:
        if error.name != "greenlet":
            raise
        raise EntryError("to run a program step by step, greenlet is needed: pip install greenlet") from None


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
    if isinstance(target, type):
        return f"the class {target.__name__}"
    if isinstance(target, ModuleType):
        return "a module"
    return f"an object of type {type(target).__name__}"


def _seed(options: EntryOptions, config: Mapping[str, Any]) -> int:
    declared = config.get("reproducibility")
    experiment_seed = declared.get("experiment_seed") if isinstance(declared, Mapping) else None
    return int(options.seed if options.seed is not None else experiment_seed or 0)


def _device(name: str | None) -> torch.device:
    if name is None:
        return torch.device("cuda", 0) if torch.cuda.is_available() else torch.device("cpu")
    try:
        return torch.device(name)
    except RuntimeError:
        raise EntryError(f"`{name}` is no device: write `cpu`, `cuda` or `cuda:1`") from None
