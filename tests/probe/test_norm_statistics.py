"""Probes of batch norm's running statistics: that they are learnt, kept, and there when evaluation needs them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from probe_programs import ask, classes, cross_entropy, on_classes, says, trial_of
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.planned import Planned


@pytest.mark.parametrize(
    ("momentum", "outcome"),
    [
        *((momentum, Outcome.WARN) for momentum in (1.0, 0.99, 0.9, 0.0)),
        *((momentum, Outcome.PASS) for momentum in (0.5, 0.1, 0.01, None)),
    ],
)
def test_momentum_of_batch_norm(momentum: float | None, outcome: Outcome) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16, momentum=momentum), nn.ReLU(), nn.Linear(16, 5))
    says(ask("batch-norm-forgets", on_classes(model)), outcome)


ANNEALED = """
def anneal(model, epoch):
    for module in model.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.momentum = max(0.9 * 0.5 ** (epoch // 20), 0.01)
"""
AVERAGED_ANEW = """
def finish(model, loader):
    torch.optim.swa_utils.update_bn(loader, model)
"""
FOUND_AGAIN = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        for module in self.modules():
            module.momentum = 0.9
"""


@pytest.mark.parametrize(
    ("text", "outcome"), [(ANNEALED, Outcome.PASS), (AVERAGED_ANEW, Outcome.PASS), (FOUND_AGAIN, Outcome.WARN)]
)
def test_a_momentum_that_is_annealed_begins_high(text: str, outcome: Outcome, tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16, momentum=0.9), nn.ReLU(), nn.Linear(16, 5))
    trial = on_classes(model)
    (tmp_path / "train.py").write_text(text)
    trial.entry = str(tmp_path / "train.py"), 1
    says(ask("batch-norm-forgets", trial), outcome)


def test_the_last_batch_is_all_the_data() -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16, momentum=0.9), nn.ReLU(), nn.Linear(16, 5))
    trial = on_classes(model)
    trial.loaders = {"training": [next(iter(trial.train_batches()))]}
    says(ask("batch-norm-forgets", trial), Outcome.PASS)


@pytest.mark.parametrize(
    ("momentum", "batches", "outcome"),
    [(1e-3, 400, Outcome.WARN), (1e-3, 4000, Outcome.PASS), (0.1, 3, Outcome.PASS), (1e-3, 0, Outcome.PASS)],
)
def test_statistics_that_have_not_arrived_when_the_run_ends(momentum: float, batches: int, outcome: Outcome) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16, momentum=momentum), nn.ReLU(), nn.Linear(16, 5))
    trial = on_classes(model)
    trial.planned = Planned(batches, "batches", "the config's max_length") if batches else None
    says(ask("batch-norm-forgets", trial), outcome)


@pytest.mark.parametrize(("resets", "outcome"), [(True, Outcome.WARN), (False, Outcome.PASS)])
def test_statistics_that_every_step_resets(resets: bool, outcome: Outcome) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))

    def loss(net: nn.Module, batch: Any) -> Tensor:
        for module in net.modules():
            if resets and isinstance(module, nn.BatchNorm1d):
                module.reset_running_stats()
        return cross_entropy(net, batch)

    says(ask("batch-norm-forgets", trial_of(model, classes(8), loss)), outcome)


@pytest.mark.parametrize(("first", "outcome"), [(0.1, Outcome.PASS), (0.0, Outcome.WARN)])
def test_a_second_pass_for_one_update_leaves_the_statistics_alone(first: float, outcome: Outcome) -> None:
    """As sharpness-aware minimisation does; the momentum stays at 0 until the next step."""
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16, momentum=0.0), nn.ReLU(), nn.Linear(16, 5))

    def twice(net: nn.Module, batch: Any) -> Tensor:
        norm: Any = net.get_submodule("1")
        norm.momentum = first
        loss = cross_entropy(net, batch)
        norm.momentum = 0.0
        return loss + cross_entropy(net, batch)

    says(ask("batch-norm-forgets", trial_of(model, classes(8), twice)), outcome)


@pytest.mark.parametrize(("filled", "outcome"), [(False, Outcome.WARN), (True, Outcome.PASS)])
def test_a_batch_norm_frozen_before_it_saw_a_batch(filled: bool, outcome: Outcome) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    if filled:
        model(classes(8)[0][0])

    def frozen(net: nn.Module, batch: Any) -> Tensor:
        net.get_submodule("1").eval()
        return cross_entropy(net, batch)

    says(ask("batch-norm-forgets", trial_of(model, classes(8), frozen)), outcome)


class OwnNorm(nn.Module):
    """Batch norm over the last dimension, with buffers of its own; `keeps` as torch's functional form takes it."""

    def __init__(self, keeps: str, learns: bool = True) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(16), learns), nn.Parameter(torch.zeros(16), learns)
        self.register_buffer("mean", torch.full((16,), 0.5 if keeps == "loaded" else 0.0))
        self.register_buffer("variance", torch.ones(16))
        self.keeps = keeps

    def forward(self, x: Tensor) -> Tensor:
        if self.keeps == "by hand" and self.training:
            self.mean.lerp_(x.detach().mean(0), 0.1)
        training = self.training and self.keeps == "training"
        return F.batch_norm(x, self.mean, self.variance, self.weight, self.bias, training=training)


@pytest.mark.parametrize(
    ("norm", "outcome"),
    [
        (OwnNorm("nothing"), Outcome.WARN),
        (OwnNorm("training"), Outcome.SKIP),
        (OwnNorm("by hand"), Outcome.SKIP),
        (OwnNorm("loaded"), Outcome.SKIP),
        (OwnNorm("nothing", learns=False), Outcome.SKIP),
    ],
)
def test_batch_norm_of_the_programs_own_that_never_sees_a_batch(norm: OwnNorm, outcome: Outcome) -> None:
    model = nn.Sequential(nn.Linear(8, 16), norm, nn.ReLU(), nn.Linear(16, 5))
    verdict = ask("batch-norm-forgets", on_classes(model))
    assert verdict.outcome is outcome, verdict.summary
    if outcome is Outcome.WARN:
        assert verdict.findings[0].location.path.endswith("test_norm_statistics.py")
        assert "training=True" in verdict.summary


def test_statistics_that_are_put_back_with_the_weights() -> None:
    """Each batch is a task of its own, to which the model as it was adapts anew."""
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5))
    trial = trial_of(model, classes(8), cross_entropy)
    before, plain = {name: value.clone() for name, value in model.state_dict().items()}, trial.train_step

    def adapt(batch: Any, index: int) -> Any:
        model.load_state_dict(before)
        return plain(batch, index)

    trial.train_step = adapt
    assert ask("batch-norm-forgets", trial).outcome is Outcome.PASS
