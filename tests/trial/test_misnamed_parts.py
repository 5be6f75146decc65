"""Names that stand for no part of a program, and the part that was probably meant."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from mlcheck.trial.functions import assemble
from mlcheck.trial.trial import Trial

LOADER: DataLoader[Any] = DataLoader(TensorDataset(torch.ones(4, 3), torch.ones(4, 1)), batch_size=2)
MODEL = nn.Linear(3, 1)
LOSS = nn.MSELoss()


def step(batch: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    return {"loss": LOSS(MODEL(batch[0]), batch[1])}


def assembled(**given: Any) -> Trial:
    parts = {"model": MODEL, "train_loader": LOADER, "optimizer": torch.optim.SGD(MODEL.parameters(), lr=0.1)}
    return assemble({**parts, **given}, "build", "train:build", ("train.py", 1), torch.device("cpu"))


@pytest.mark.parametrize(
    ("given", "name", "meant"),
    [
        ({"loss": LOSS, "valid_loader": LOADER}, "valid_loader", "validation_loader"),
        ({"loss": LOSS, "test_loader": LOADER}, "test_loader", "validation_loader"),
        ({"loss": LOSS, "validation_step": step}, "validation_step", "evaluate_step"),
        ({"loss": LOSS, "evaluation_step": step}, "evaluation_step", "evaluate_step"),
        ({"criterion": LOSS}, "criterion", "loss"),
    ],
)
def test_a_name_that_stands_for_no_part_is_told_with_the_one_probably_meant(
    given: dict[str, Any], name: str, meant: str
) -> None:
    told = f"`train:build` returns `{name}`, which is not read: `{meant}` was probably meant"
    assert told in assembled(**given).notices


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"loss": LOSS, "evaluate_step": step, "val_step": step}, "val_step"),
        ({"loss": LOSS, "validation_step": 3}, "validation_step"),
        ({"loss": LOSS, "val_loader": step}, "val_loader"),
        ({"loss": LOSS, "classes": ["a", "b"]}, "classes"),
    ],
)
def test_what_is_there_or_of_another_kind_was_not_meant(given: dict[str, Any], name: str) -> None:
    told = f"`train:build` returns `{name}`, which is not read: the parts are model, optimizer"
    assert len([notice for notice in assembled(**given).notices if notice.startswith(told)]) == 1


def test_nothing_is_told_of_names_that_stand_for_parts() -> None:
    assert not assembled(loss=LOSS, validation_loader=LOADER, evaluate_step=step).notices
