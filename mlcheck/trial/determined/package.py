"""Puts the stand-in on `sys.modules` under Determined's own names."""

from __future__ import annotations

import difflib
import sys
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from mlcheck.trial.config import Hyperparameters
from mlcheck.trial.determined import api, core_api, samplers
from mlcheck.trial.determined.context import PyTorchExperimentalContext, PyTorchTrialContext
from mlcheck.trial.determined.data import DataLoader, TorchData, adapt_batch_sampler, data_length, to_device
from mlcheck.trial.determined.distributed import DistributedContext
from mlcheck.trial.determined.reducers import MetricReducer, Reducer, SimpleReducer
from mlcheck.trial.determined.writers import TorchWriter
from mlcheck.trial.trial import EntryError

ROOT = "determined"
_IMPORTABLE = str(Path(__file__).resolve().parent / "importable")


class TrialInfo:
    """What `get_cluster_info().trial` tells of the run."""

    def __init__(self, hparams: Hyperparameters, config: dict[str, Any], seed: int) -> None:
        self.trial_id = 1
        self.experiment_id = 1
        self.trial_seed = seed
        self.hparams = hparams
        self._config = config
        self._steps_completed = 0


class ClusterInfo:
    """What `get_cluster_info()` tells on a cluster of one slot."""

    def __init__(self, trial: TrialInfo) -> None:
        self.trial = trial
        self.latest_checkpoint = None
        self.user_data: dict[str, Any] = trial._config.get("data") or {}
        self.container_addrs = ["127.0.0.1"]
        self.container_slot_counts = [1]
        self.container_rank = 0
        self.gpu_uuids: list[str] = []
        self.slot_ids = [0]
        self.task_type = "TRIAL"


def install(cluster: ClusterInfo | None) -> bool:
    """Put the stand-in in place of `determined`. True where a real package is installed and thereby hidden."""
    hides_real = _real_is_installed()
    if _IMPORTABLE not in sys.path:
        sys.path.insert(0, _IMPORTABLE)  # a worker process that is not forked takes over the path, not the modules
    for name in [name for name in sys.modules if name == ROOT or name.startswith(f"{ROOT}.")]:
        del sys.modules[name]
    modules = {f"{ROOT}.{name}" if name else ROOT: _module(name, content) for name, content in _contents(cluster)}
    for name, module in modules.items():
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(modules[parent], child, module)
    sys.modules.update(modules)
    return hides_real


def _real_is_installed() -> bool:
    """Whether a package of this name is on the path: looked for apart from what stands in for it."""
    path = [folder for folder in sys.path if folder != _IMPORTABLE]
    return PathFinder.find_spec(ROOT, path) is not None


def _contents(cluster: ClusterInfo | None) -> list[tuple[str, dict[str, Any]]]:
    """Module by module (parents first) what the stand-in offers."""
    errors = {kind.__name__: kind for kind in (api.InvalidExperimentException, api.InternalException)}
    core = (core_api.Context, core_api.DistributedContext, core_api.PreemptMode, core_api.TensorboardMode)
    return [
        (
            "",
            {
                "InvalidHP": api.InvalidHP,
                "LOG_FORMAT": "%(levelname)s: [%(process)s] %(name)s: %(message)s",
                "get_cluster_info": lambda: cluster,
                "ClusterInfo": ClusterInfo,
                "TrialInfo": TrialInfo,
                "__version__": "0.38.1",
            },
        ),
        ("core", {**{kind.__name__: kind for kind in core}, "init": _core_init(cluster)}),
        ("errors", errors),
        ("experimental", {name: _refusal(f"experimental.{name}", _NEEDS_MASTER) for name in ("Determined", "client")}),
        ("pytorch", _pytorch()),
        ("pytorch.samplers", {name: value for name, value in vars(samplers).items() if name.endswith("Sampler")}),
        ("tensorboard", {}),
        ("tensorboard.metric_writers", {}),
        ("tensorboard.metric_writers.pytorch", {"TorchWriter": TorchWriter}),
        ("util", {"download_gcs_blob_with_backoff": _refusal("util.download_gcs_blob_with_backoff", _NEEDS_CLOUD)}),
    ]


def _core_init(cluster: ClusterInfo | None) -> Any:
    def init(*, distributed: DistributedContext | None = None, **_: Any) -> core_api.Context:
        config = cluster.trial._config if cluster is not None else {}
        return core_api.Context(distributed or core_api.DistributedContext(), config)

    return init


def _pytorch() -> dict[str, Any]:
    kinds = (
        api.Batch,
        api.Epoch,
        api.LRScheduler,
        api.PyTorchCallback,
        api.PyTorchTrial,
        api.TrainUnit,
        DataLoader,
        MetricReducer,
        PyTorchExperimentalContext,
        PyTorchTrialContext,
        Reducer,
    )
    checkpoints = ("load_trial_from_checkpoint_path", "CheckpointLoadContext")
    return {
        **{kind.__name__: kind for kind in kinds},
        "adapt_batch_sampler": adapt_batch_sampler,
        "data_length": data_length,
        "to_device": to_device,
        **{name: _refusal(f"pytorch.{name}", _NAME_THE_CLASS) for name in ("init", "Trainer")},
        **{name: _refusal(f"pytorch.{name}", _NEEDS_MASTER) for name in checkpoints},
        "TorchData": TorchData,
        "_Data": Any,
        "_SimpleReducer": SimpleReducer,
    }


_NAME_THE_CLASS = "mlcheck drives the trial itself, name the trial class as the entry point"
_NEEDS_MASTER = "it needs a running Determined master, which there is none here"
_NEEDS_CLOUD = "it downloads from cloud storage, give the data another way for the probe (prep)"


def _refusal(name: str, why: str) -> Any:
    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise EntryError(f"the program calls `{ROOT}.{name}()`: {why}")

    return refuse


def _module(name: str, content: dict[str, Any]) -> ModuleType:
    full = f"{ROOT}.{name}" if name else ROOT
    module = ModuleType(full, "mlcheck's stand-in for Determined.")
    module.__spec__ = ModuleSpec(full, None, is_package=True)
    module.__path__ = []
    vars(module).update(content)

    def missing(attribute: str) -> NoReturn:
        near = difflib.get_close_matches(attribute, content, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "mlcheck's stand-in for Determined lacks it"
        raise api.NotProvided(f"there is no `{full}.{attribute}`: {hint}")

    vars(module)["__getattr__"] = missing
    return module
