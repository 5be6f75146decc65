"""Trackers and hubs that a program reports to, switched off while it is tried: nothing of it leaves the machine.

A program is begun dozens of times, and each would be a run on a server, with a few steps in it, for the whole team to
see. Each tracker has a way of its own to be silent: an environment variable, which what stands in the code overrules,
or an argument, which is given here whatever the code gives.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from types import ModuleType
from typing import Any, NamedTuple

from mlcheck.trial.after_import import AfterImport, owner_of

_ENVIRONMENT = {
    "WANDB_MODE": "disabled",  # https://docs.wandb.ai: calls are answered, nothing is written or sent
    "SWANLAB_MODE": "disabled",
    "NEPTUNE_MODE": "debug",
    "CLEARML_OFFLINE_MODE": "1",
}
_HUB = "huggingface_hub.hf_api"
_HUB_WRITES = (
    "create_repo", "create_commit", "upload_file", "upload_folder", "create_branch", "create_tag", "delete_repo",
    "delete_file", "delete_folder",
)  # fmt: skip


class _Start(NamedTuple):
    """The function of a tracker that begins a run, and the arguments with which it tells no server."""

    module: str
    name: str
    silent: Mapping[str, Any]


_STARTS = (
    _Start("wandb", "init", {"mode": "disabled"}),
    _Start("swanlab", "init", {"mode": "disabled"}),
    _Start("neptune", "init_run", {"mode": "debug"}),
    _Start("comet_ml", "start", {"online": False}),
    _Start("comet_ml", "Experiment.__init__", {"disabled": True}),
)
_TRACKING_URIS = (("mlflow", "set_tracking_uri"), ("mlflow.tracking.client", "MlflowClient.__init__"))


class Trackers:
    """While installed, they are silent. `scratch` is a folder for what one insists on writing."""

    def __init__(self, scratch: str) -> None:
        self._uri = f"file:{os.path.join(scratch, 'mlruns')}"
        self._silenced: dict[str, None] = {}
        self._stack = ExitStack()

    def install(self) -> None:
        for name, value in {**_ENVIRONMENT, "MLFLOW_TRACKING_URI": self._uri}.items():
            if name in os.environ:
                self._stack.callback(os.environ.__setitem__, name, os.environ[name])
            else:
                self._stack.callback(os.environ.pop, name, None)
            os.environ[name] = value
        modules = [start.module for start in _STARTS] + [module for module, _ in _TRACKING_URIS] + [_HUB]
        late = AfterImport(modules, self._silence)
        late.install()
        self._stack.callback(late.remove)

    def remove(self) -> None:
        self._stack.close()

    def told(self) -> str:
        """One sentence on what was kept from reporting; empty where nothing tried."""
        named = ", ".join(self._silenced)
        return f"what the program reports to {named} was told to nobody: it is only tried" if named else ""

    def _silence(self, module: ModuleType) -> None:
        own = module.__name__
        for start in _STARTS:
            if start.module == own:
                self._replace(module, start.name, functools.partial(self._begun, start))
        for name in (name for home, name in _TRACKING_URIS if home == own):
            self._replace(module, name, self._led)
        if own == _HUB:
            for name in _HUB_WRITES:
                for path in (f"HfApi.{name}", name):  # the functions are methods that were bound before
                    self._replace(module, path, functools.partial(self._kept, module))

    def _replace(self, module: ModuleType, path: str, replacement: Callable[[Any], Callable[..., Any]]) -> None:
        owner, name = owner_of(module, path)
        if owner is not None:
            original = getattr(owner, name)
            self._stack.callback(setattr, owner, name, original)
            setattr(owner, name, replacement(original))

    def _begun(self, start: _Start, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def begun(*args: Any, **kwargs: Any) -> Any:
            self._silenced[start.module] = None
            return original(*args, **{**kwargs, **start.silent})

        return begun

    def _led(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """With an address on the network led to the scratch folder."""

        @functools.wraps(original)
        def led(*args: Any, **kwargs: Any) -> Any:
            return original(*map(self._local, args), **{name: self._local(value) for name, value in kwargs.items()})

        return led

    def _local(self, value: Any) -> Any:
        if not (isinstance(value, str) and (value.startswith(("http://", "https://", "databricks", "uc:")))):
            return value
        self._silenced["mlflow"] = None
        return self._uri

    def _kept(self, hub: ModuleType, original: Callable[..., Any]) -> Callable[..., Any]:
        """What would have been the answer of the hub, had it taken what it is not sent."""

        @functools.wraps(original)
        def kept(*args: Any, **kwargs: Any) -> Any:
            self._silenced["the Hugging Face Hub"] = None
            repository = kwargs.get("repo_id") or next((given for given in args if isinstance(given, str)), "")
            address = f"https://huggingface.co/{repository}"
            if original.__name__ == "create_repo":
                return hub.RepoUrl(address)
            told = {"commit_message": "", "commit_description": "", "oid": ""}
            return hub.CommitInfo(commit_url=f"{address}/commit/main", **told)

        return kept
