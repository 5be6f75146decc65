"""Checkpoints in the form in which Determined 0.38 writes them, restored and served."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from mlcheck.load.compare import plain
from mlcheck.load.exported import of_checkpoint
from mlcheck.load.service import NoService, load_service
from mlcheck.trial.determined.checkpoint import restore
from mlcheck.trial.trial import EntryError

CODE = """
    from pathlib import Path
    from torch import nn
    from determined.pytorch import PyTorchTrial

    class Digits(PyTorchTrial):
        def __init__(self, context):
            self.names = Path("names.txt").read_text().split()
            size = context.get_hparam("size")
            self.encoder = context.wrap_model(nn.Linear(size, context.get_hparams()["head"]["width"]))
            self.head = context.wrap_model(nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2)))
        def build_training_data_loader(self): raise OSError("the training data are not here")
        def build_validation_data_loader(self): raise OSError("the validation data are not here")
        def train_batch(self, batch, epoch_idx, batch_idx): ...
        def evaluate_batch(self, batch): ...
"""
HPARAMS = {"size": 3, "head": {"width": 2, "type": "wide"}}

Make = Callable[..., Path]


@pytest.fixture
def checkpoint(write: Callable[[str, str], Path]) -> Make:
    """A folder as Determined's `_save` leaves it; `told` goes into load_data.json, `state` into the weights."""

    def make(code: str = CODE, told: dict[str, Any] | None = None, **state: Any) -> Path:
        write("ckpt/code/digits_def.py", code)
        write("ckpt/code/names.txt", "zero one")
        torch.manual_seed(3)
        saved = {
            "models_state_dict": [
                nn.Linear(3, 2).state_dict(),
                nn.Sequential(nn.Dropout(), nn.Linear(2, 2)).state_dict(),
            ],
            "optimizers_state_dict": [{"state": {}, "param_groups": [{"lr": 0.1, "params": [0]}]}],
            "lr_schedulers_state_dict": [],
            "callbacks": {},
            "rng_state": {
                "cpu_rng_state": torch.random.get_rng_state(),
                "np_rng_state": np.random.get_state(),
                "random_rng_state": random.getstate(),
            },
        }
        torch.save({**saved, **state}, "ckpt/state_dict.pth")
        given = {"trial_type": "PyTorchTrial", "experiment_config": {}, "trial_cls_spec": "digits_def:Digits"}
        return write("ckpt/load_data.json", json.dumps({**given, "hparams": HPARAMS, **(told or {})})).parent

    return make


def weights() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(3)
    return nn.Linear(3, 2).weight.detach(), nn.Sequential(nn.Dropout(), nn.Linear(2, 2))[1].weight.detach()  # type: ignore[union-attr, return-value]


def test_the_trained_weights_are_in_the_models_by_their_names(checkpoint: Make) -> None:
    restored = restore(checkpoint(), torch.device("cpu"))
    encoder, head = weights()
    assert list(restored.models) == ["encoder", "head"]
    assert torch.equal(restored.models["encoder"].weight, encoder)  # type: ignore[arg-type]
    assert torch.equal(restored.models["head"][1].weight, head)  # type: ignore[index]
    assert restored.trial.names == ["zero", "one"]  # type: ignore[attr-defined]
    assert restored.source.startswith("digits_def:Digits with the weights of ")


def test_weights_that_were_saved_by_several_slots(checkpoint: Make) -> None:
    state = {f"module.{name}": value for name, value in nn.Linear(3, 2).state_dict().items()}
    head = nn.Sequential(nn.Dropout(), nn.Linear(2, 2)).state_dict()
    restored = restore(checkpoint(models_state_dict=[state, head]), torch.device("cpu"))
    assert torch.equal(restored.models["encoder"].weight, state["module.weight"])  # type: ignore[arg-type]


def test_one_of_its_models_is_served_in_evaluation_mode(checkpoint: Make) -> None:
    folder = checkpoint()
    service = load_service(f"{folder}:head")
    assert plain(service.predict(service.prepare([[1.0, 2.0]]))) == plain(
        service.predict(service.prepare([[1.0, 2.0]]))
    )
    assert any(notice.startswith("restored digits_def:Digits") for notice in service.notices)
    with pytest.raises(NoService, match=r"has several models: name one, as in .*:NAME, of encoder, head"):
        load_service(str(folder))
    with pytest.raises(NoService, match="has no model `hed`"):
        load_service(f"{folder}:hed")


def test_a_trial_that_predicts_is_asked_itself(checkpoint: Make) -> None:
    code = CODE + "\n        def predict(self, query): return self.names[int(self.encoder.weight.sum() * 0) + query]\n"
    assert of_checkpoint(checkpoint(code)).predict(1) == "one"


@pytest.mark.parametrize(
    ("told", "state", "expected"),
    [
        ({"trial_cls_spec": "digits_def:nn"}, {}, "was written by `digits_def:nn`, which is no PyTorchTrial"),
        (
            {"hparams": None},
            {},
            "asks for the hyperparameter `size`, which .* does not hold: training outside",
        ),
        ({"hparams": {**HPARAMS, "size": 4}}, {}, "do not fit `encoder` of `digits_def:Digits`: .*size mismatch"),
        ({}, {"models_state_dict": [{}]}, "holds 1 model, and `digits_def:Digits` wraps 2"),
        ({}, {"callbacks": {"mine": Path("x")}}, "holds more than tensors and plain data"),
        ({}, {"models_state_dict": None}, "is no checkpoint of a PyTorchTrial"),
    ],
    ids=["class", "local", "size", "count", "object", "nothing"],
)
def test_a_checkpoint_that_does_not_fit(
    told: dict[str, Any], state: dict[str, Any], expected: str, checkpoint: Make
) -> None:
    with pytest.raises(EntryError, match=expected):
        restore(checkpoint(told=told, **state), torch.device("cpu"))


def test_what_is_missing_of_a_checkpoint(checkpoint: Make) -> None:
    folder = checkpoint()
    (folder / "load_data.json").write_text("{", encoding="utf-8")
    with pytest.raises(EntryError, match="does not say which trial wrote it"):
        restore(folder, torch.device("cpu"))
    (folder / "load_data.json").unlink()
    with pytest.raises(EntryError, match="download the checkpoint whole"):
        restore(folder, torch.device("cpu"))
    (folder / "state_dict.pth").unlink()
    with pytest.raises(NoService, match=r"is a folder without a state_dict\.pth"):
        load_service(str(folder))
