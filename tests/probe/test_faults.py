"""Programs with one fault each: the probe meant for it fails, and says what and where."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import Function, ask, classes, cross_entropy, fails, mlp, trial_of
from sound_programs import SOUND
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome


def test_evaluation_in_training_mode_and_what_it_changes() -> None:
    model = nn.Sequential(nn.BatchNorm1d(8), *mlp(), nn.Dropout(0.2))

    def evaluate(batch: Any) -> dict[str, float]:
        return {"val_loss": float(cross_entropy(model, batch).detach())}

    verdict = fails("missing-eval-mode", trial_of(model, classes(8), cross_entropy, evaluate=evaluate))
    assert "`0 (BatchNorm1d)`, `6 (Dropout)`" in verdict.findings[0].message
    assert "running_mean" in verdict.findings[1].message


def test_functional_dropout_in_evaluation() -> None:
    model = Function(lambda layers, x: F.dropout(layers["net"](x), 0.5), net=mlp())
    verdict = fails("random-evaluation", trial_of(model, classes(8), cross_entropy))
    assert "F.dropout" in verdict.summary
    assert verdict.findings[0].location.path.endswith("test_faults.py")


class Fused(nn.Module):
    """Attention of four tokens, with dropout whatever the mode, or in training only."""

    def __init__(self, always: bool) -> None:
        super().__init__()
        self.project, self.net, self.always = nn.Linear(2, 6), mlp(), always

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.project(x.view(-1, 4, 2)).chunk(3, -1)
        dropped = 0.2 if self.always or self.training else 0.0
        out: Tensor = self.net(F.scaled_dot_product_attention(q, k, v, dropout_p=dropped).flatten(1))
        return out


def test_dropout_within_attention_in_evaluation() -> None:
    verdict = fails("random-evaluation", trial_of(Fused(always=True), classes(8), cross_entropy))
    assert "scaled_dot_product_attention drops values in evaluation: its `dropout_p` knows no mode" in verdict.summary
    sound = ask("random-evaluation", trial_of(Fused(always=False), classes(8), cross_entropy))
    assert sound.outcome is Outcome.PASS


def test_a_training_step_in_evaluation_mode() -> None:
    model = nn.Sequential(*mlp(), nn.Dropout(0.2))
    optimizer = torch.optim.Adam(model.parameters())

    def step(batch: Any, _: int) -> dict[str, Tensor]:
        model.eval()
        optimizer.zero_grad()
        loss = cross_entropy(model, batch)
        loss.backward()
        optimizer.step()
        return {"loss": loss.detach()}

    fails("train-not-restored", trial_of(model, classes(8), cross_entropy, optimizer, step=step))


def test_a_learning_rate_far_too_low_or_high() -> None:
    for rate, word in ((1e-7, "does not learn"), (1e4, "rises")):
        model = mlp()
        trial = trial_of(model, classes(8), cross_entropy, torch.optim.SGD(model.parameters(), lr=rate))
        summary = fails("cannot-overfit-one-batch", trial).summary
        assert word in summary
        assert "model, loss and data are sound" in summary


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_broadcast_loss() -> None:
    batches = [(torch.randn(32, 8), torch.randn(32)) for _ in range(2)]
    trial = trial_of(mlp(8, 1), batches, lambda model, batch: F.mse_loss(model(batch[0]), batch[1]))
    fails("cannot-overfit-one-batch", trial)


def test_nan_in_one_row() -> None:
    batches = classes(8)
    batches[2][0][5, 3] = float("nan")
    verdict = fails("non-finite-batch", trial_of(mlp(), batches, cross_entropy))
    assert "batch 2, row 5, feature [3]" in verdict.summary


def test_the_gallery_stays_open_and_shows_pictures() -> None:
    verdict = ask("batch-not-reviewed", SOUND["lenet"]())
    assert verdict.outcome is Outcome.PENDING
    assert [figure.kind for figure in verdict.figures] == ["images", "table", "bars"]
    assert len(verdict.figures[0].data["tiles"]) == 16
