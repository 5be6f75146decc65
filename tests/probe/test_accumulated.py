"""Batches that are added up beside one large batch: equal ones, uneven ones, and what cannot be told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from probe_programs import ask

from mlcheck.core.check import Verdict
from mlcheck.core.outcome import Outcome
from mlcheck.trial.find import load_trial

PROGRAM = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

def build():
    x = torch.randn(96, 6, 4)
    y = torch.randint(5, (96, 6))
    y[torch.rand(96, 6) < torch.linspace(0, 0.9, 96)[:, None]] = -100
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    state = {"count": 0}

    def train_step(batch):
        x, y = batch
        out = model(x).flatten(0, 1)
        LOSS
        (loss / SCALE).backward()
        state["count"] += 1
        if state["count"] % EVERY == 0:
            CLIP
            optimizer.step()
            optimizer.zero_grad()
        return {"loss": loss.detach()}

    return {"model": model, "optimizer": optimizer, "train_step": train_step, "objects": state,
            "train_loader": DataLoader(TensorDataset(x, y), batch_size=8)}
"""
TOKENS = "loss = F.cross_entropy(out, y.flatten())"
SAMPLES = "loss = F.cross_entropy(out, y.flatten(), reduction='sum') / len(x)"
SUM = "loss = F.cross_entropy(out, y.flatten(), reduction='sum')"
CONTRAST = "z = F.normalize(out.view(len(x), -1)); loss = F.cross_entropy(z @ z.T, torch.arange(len(x)))"
NOISE = "loss = F.cross_entropy(out + torch.randn_like(out), y.flatten())"


@pytest.fixture
def judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> object:
    monkeypatch.chdir(tmp_path)

    def judge(loss: str, every: int = 3, scale: int = 3, clip: str = "pass") -> Verdict:
        sys.modules.pop("program", None)
        text = (
            PROGRAM.replace("LOSS", loss)
            .replace("EVERY", str(every))
            .replace("SCALE", str(scale))
            .replace("CLIP", clip)
        )
        (tmp_path / "program.py").write_text(text)
        return ask("accumulated-batches-weigh-unevenly", load_trial("program.py:build"))

    return judge


@pytest.mark.parametrize(("loss", "scale"), [(SAMPLES, 3), (SAMPLES, 1), (SUM, 1)])
def test_parts_of_one_large_batch_pass(judged: object, loss: str, scale: int) -> None:
    assert callable(judged)
    verdict = judged(loss, scale=scale)
    assert verdict.outcome is Outcome.PASS, verdict
    assert "3 batches added up step as one batch of all their samples would" in verdict.summary


def test_a_loss_that_divides_by_its_own_tokens_is_weighed_otherwise(judged: object) -> None:
    assert callable(judged)
    verdict = judged(TOKENS)
    assert verdict.outcome is Outcome.WARN
    assert "3 batches are added up alike, but one large batch would weigh them 0.348, 0.333, 0.318" in verdict.summary


OWN_CLIP = "[p.grad.mul_(0.01 / p.grad.norm()) for p in model.parameters()]"


@pytest.mark.parametrize("by", ["nn.utils.clip_grad_norm_", "nn.utils.clip_grad.clip_grad_norm_"])
def test_clipping_is_no_matter_of_weights(judged: object, by: str) -> None:
    assert callable(judged)
    assert judged(SAMPLES, clip=f"{by}(model.parameters(), 0.01)").outcome is Outcome.PASS
    assert judged(TOKENS, clip=f"{by}(model.parameters(), 0.01)").outcome is Outcome.WARN


def test_clipping_by_hand_leaves_it_open(judged: object) -> None:
    assert callable(judged)
    assert judged(SAMPLES, clip=OWN_CLIP).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(("loss", "reason"), [(CONTRAST, "depend on one another"), (NOISE, "draws random numbers")])
def test_what_cannot_be_told_is_left_open(judged: object, loss: str, reason: str) -> None:
    assert callable(judged)
    verdict = judged(loss)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert reason in verdict.reason


def test_an_update_for_every_batch_is_not_asked(judged: object) -> None:
    assert callable(judged)
    assert judged(TOKENS, every=1, scale=1).outcome is Outcome.SKIP
