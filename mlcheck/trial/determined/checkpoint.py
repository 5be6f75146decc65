"""Restores a trial from the folder of a checkpoint that Determined wrote, as `load_trial_from_checkpoint_path` does."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present

from mlcheck.core.plural import plural
from mlcheck.trial.config import MissingHyperparameter, chosen_hyperparameters
from mlcheck.trial.determined import adapter, package
from mlcheck.trial.determined.api import PyTorchTrial
from mlcheck.trial.importing import find_object
from mlcheck.trial.trial import EntryError

_STATE = "state_dict.pth"
_TOLD = ("load_data.json", "metadata.json")
_LOCAL = (
    ": training outside a cluster saves no hyperparameters; write them as `hparams` into its load_data.json, "
    "or name a predict function"
)


@dataclass(frozen=True, slots=True)
class Restored:
    """The user's trial with its trained models, by the names the trial gives them; `source` is what was read."""

    trial: PyTorchTrial
    models: Mapping[str, nn.Module]
    source: str


def is_checkpoint(folder: Path) -> bool:
    return (folder / _STATE).is_file()


def restore(folder: Path, device: torch.device) -> Restored:
    """Import the trial from the checkpoint's own code, construct it with its hyperparameters, load its weights.

    Raises EntryError for a folder that is incomplete or does not fit its code; what the user's code raises passes
    through. Nothing is unpickled but tensors and plain data.
    """
    folder = folder.resolve()
    spec, config, hparams = _told(folder)
    values = chosen_hyperparameters(hparams, str(folder))
    package.install(package.ClusterInfo(package.TrialInfo(values, config, 0)))
    code = folder / "code"
    with _inside(code if code.is_dir() else Path()):
        kind = find_object(spec)
        if not (isinstance(kind, type) and issubclass(kind, PyTorchTrial)):
            raise EntryError(f"{folder} was written by `{spec}`, which is no PyTorchTrial")
        try:
            instance, context, _ = adapter.construct(kind, adapter.settings(values, config, 0, device))
        except MissingHyperparameter as error:
            raise EntryError(f"{error.args[0].partition(',')[0]}, which {folder} does not hold{_LOCAL}") from error
    models = adapter.names(instance, context.models, "model", context._originals)
    _load(models, _states(folder / _STATE), folder, spec)
    source = f"{spec} with the weights of {folder / _STATE}" + (f" and the code in {code}" if code.is_dir() else "")
    return Restored(instance, models, source)


def _told(folder: Path) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """The trial's class, the experiment's config and the hyperparameters, as the checkpoint says."""
    path = next((folder / name for name in _TOLD if (folder / name).is_file()), None)
    if path is None:
        raise EntryError(
            f"{folder} has no load_data.json or metadata.json: download the checkpoint whole "
            "(`det checkpoint download`)"
        )
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        config = data.get("experiment_config") or {}
        spec = data.get("trial_cls_spec") or config["entrypoint"]
        return str(spec), dict(config), dict(data.get("hparams") or {})
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        raise EntryError(f"{path} does not say which trial wrote it ({type(error).__name__}: {error})") from error


def _states(path: Path) -> list[dict[str, Any]]:
    """The models' weights, in the order in which they were wrapped."""
    try:
        with torch.serialization.safe_globals(_of_random_state()):
            data = torch.load(path, map_location="cpu", weights_only=True)
        return list(data["models_state_dict"])
    except UnpicklingError as error:
        raise EntryError(
            f"{path} holds more than tensors and plain data ({str(error).splitlines()[0][:160]}): "
            "name a predict function that loads it"
        ) from error
    except (RuntimeError, OSError, EOFError, KeyError, TypeError) as error:
        raise EntryError(f"{path} is no checkpoint of a PyTorchTrial ({type(error).__name__}: {error})") from error


def _of_random_state() -> list[Any]:
    """What numpy's random state is made of, which Determined saves beside the weights: as numpy 1 and 2 name it."""
    remake: Any = np.empty(0).__reduce__()[0]
    names = [f"numpy.{core}.multiarray._reconstruct" for core in ("core", "_core")]
    return [*((remake, name) for name in names), np.ndarray, np.dtype, np.dtypes.UInt32DType]


def _load(models: Mapping[str, nn.Module], states: list[dict[str, Any]], folder: Path, spec: str) -> None:
    if len(models) != len(states):
        raise EntryError(f"{folder} holds {plural(len(states), 'model')}, and `{spec}` wraps {len(models)}")
    for (name, model), state in zip(models.items(), states, strict=True):
        consume_prefix_in_state_dict_if_present(state, "module.")  # written by a trial that ran on several slots
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            told = " ".join(str(error).split())[:300]
            raise EntryError(f"the weights in {folder} do not fit `{name}` of `{spec}`: {told}") from error


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """The code's own folder is the working folder while a trial is made, as in Determined."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
