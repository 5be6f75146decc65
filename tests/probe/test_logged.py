"""Metrics that a Lightning module logs in its validation are metrics like those that are returned."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from probe_programs import ask, classes, cross_entropy, says, trial_of

from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.validation.logged import logged

lightning: Any = pytest.importorskip("lightning.pytorch")


def logging_trial(axis: int) -> Any:
    class Net(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(8, 5)

        def forward(self, x: Any) -> Any:
            return self.net(x)

        def log(self, *_: Any, **__: Any) -> None:
            """Without a trainer there is nothing to log to."""

    model = Net()

    def evaluate(batch: Any) -> dict[str, float]:
        model.eval()
        right = model(batch[0]).argmax(axis)[: len(batch[1])] == batch[1][: batch[1].shape[0] if axis else 5]
        lightning.LightningModule.log(model, "val_acc", right.float().mean())
        return {}

    return trial_of(model, classes(8), cross_entropy, evaluate=evaluate)


@pytest.fixture(autouse=True)
def unattached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lightning.LightningModule, "log", lambda *_, **__: None)


def test_a_logged_accuracy_is_recomputed() -> None:
    says(ask("metric-wrong", logging_trial(axis=1)), Outcome.PASS, "val_acc equal what was recomputed")
    says(ask("metric-wrong", logging_trial(axis=0)), Outcome.WARN, "val_acc is", "the model's output and the labels")


def test_what_is_logged_in_training_is_no_metric_of_the_evaluation() -> None:
    model = logging_trial(axis=1).models["model"]
    with logged() as told:
        lightning.LightningModule.log(model.train(), "train_loss", 1.0)
        lightning.LightningModule.log(model.eval(), "val_loss", torch.tensor(2.0), prog_bar=True)
        lightning.LightningModule.log(model, "confusion", torch.zeros(3, 3))
    assert told == {"val_loss": torch.tensor(2.0)}
