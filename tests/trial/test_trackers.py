"""What a program reports to trackers and hubs while it is tried goes nowhere, whatever its code asks for."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlcheck.trial.trackers import Trackers

STAND_INS = {
    "wandb": "def init(project='', mode=None, **more):\n    return project, mode\n",
    "swanlab": "def init(mode='cloud'):\n    return mode\n",
    "neptune": "def init_run(mode='async'):\n    return mode\n",
    "comet_ml": (
        "def start(online=True):\n    return online\n"
        "class Experiment:\n    def __init__(self, key='', disabled=False):\n        self.disabled = disabled\n"
    ),
    "mlflow/__init__": "seen = []\ndef set_tracking_uri(uri):\n    seen.append(uri)\n",
    "mlflow/tracking/__init__": "",
    "mlflow/tracking/client": (
        "class MlflowClient:\n    def __init__(self, tracking_uri=None):\n        self.uri = tracking_uri\n"
    ),
}


@pytest.fixture
def trackers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trackers]:
    """Installed, with stand-ins for the packages to be found."""
    for name, text in STAND_INS.items():
        path = tmp_path / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    for name in list(sys.modules):
        if name.partition(".")[0] in {stand_in.partition("/")[0] for stand_in in STAND_INS}:
            monkeypatch.delitem(sys.modules, name)
    installed = Trackers(str(tmp_path / "scratch"))
    installed.install()
    yield installed
    installed.remove()


def imported(name: str) -> Any:
    return importlib.import_module(name)


def test_a_run_is_silent_though_the_code_asks_for_another_mode(trackers: Trackers) -> None:
    assert trackers.told() == ""
    assert imported("wandb").init("p", mode="online", tags=["x"]) == ("p", "disabled")
    assert imported("swanlab").init() == "disabled"
    assert imported("neptune").init_run(mode="async") == "debug"
    assert imported("comet_ml").start(online=True) is False
    assert imported("comet_ml").Experiment("key").disabled
    assert trackers.told() == (
        "what the program reports to wandb, swanlab, neptune, comet_ml was told to nobody: it is only tried"
    )


def test_a_module_that_was_imported_before_is_silenced_too(trackers: Trackers) -> None:
    trackers.remove()
    wandb = imported("wandb")
    assert wandb.init("p", mode="online") == ("p", "online")
    trackers.install()
    assert wandb.init("p", mode="online") == ("p", "disabled")


def test_what_mlflow_would_send_goes_to_the_scratch_folder(trackers: Trackers, tmp_path: Path) -> None:
    scratch = f"file:{tmp_path}/scratch/mlruns"
    mlflow, client = imported("mlflow"), imported("mlflow.tracking.client").MlflowClient
    mlflow.set_tracking_uri("file:./runs")
    assert trackers.told() == ""
    mlflow.set_tracking_uri("https://tracking.example")
    assert mlflow.seen == ["file:./runs", scratch]
    assert client(tracking_uri="http://tracking.example").uri == client("databricks").uri == scratch
    assert client().uri is None
    assert os.environ["MLFLOW_TRACKING_URI"] == scratch


def test_nothing_is_put_on_the_hub(trackers: Trackers, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = pytest.importorskip("huggingface_hub")
    sent: list[Any] = []
    monkeypatch.setattr("huggingface_hub.hf_api.get_session", lambda: sent.append(1), raising=False)
    assert hub.create_repo("ada/digits", exist_ok=True).repo_id == "ada/digits"
    assert hub.HfApi().create_repo(repo_id="ada/digits").repo_id == "ada/digits"
    told = hub.HfApi().upload_folder(repo_id="ada/digits", folder_path=".")
    assert told.commit_url == "https://huggingface.co/ada/digits/commit/main"
    assert hub.upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id="ada/digits").oid == ""
    assert not sent
    assert "the Hugging Face Hub" in trackers.told()


def test_all_is_as_before_afterwards(trackers: Trackers, monkeypatch: pytest.MonkeyPatch) -> None:
    trackers.remove()
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.delenv("NEPTUNE_MODE", raising=False)
    trackers.install()
    assert os.environ["WANDB_MODE"] == "disabled"
    wandb = imported("wandb")
    trackers.remove()
    assert os.environ["WANDB_MODE"] == "offline"
    assert "NEPTUNE_MODE" not in os.environ
    assert wandb.init("p", mode="online") == ("p", "online")
