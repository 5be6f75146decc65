"""An averaged copy of a model beside it, with and without its buffers."""

from __future__ import annotations

import copy
from typing import Any

import torch
from probe_programs import ask, classes, cross_entropy, trial_of
from test_data_probes import says
from torch import Tensor, nn

from mlcheck.core.outcome import Outcome
from mlcheck.trial.trial import Trial


class Average:
    def __init__(self, model: nn.Module, buffers: bool) -> None:
        self.shadow = copy.deepcopy(model).requires_grad_(False)
        self._live, self._buffers = model, buffers

    @torch.no_grad()
    def update(self) -> None:
        for mine, theirs in zip(self.shadow.parameters(), self._live.parameters()):
            mine.lerp_(theirs, 0.1)
        if self._buffers:
            for mine, theirs in zip(self.shadow.buffers(), self._live.buffers()):
                mine.copy_(theirs)


def averaged(buffers: bool, norm: bool = True, update: bool = True, evaluated: bool = True) -> Trial:
    model = nn.Sequential(nn.Linear(8, 16), *([nn.BatchNorm1d(16)] if norm else []), nn.ReLU(), nn.Linear(16, 5))
    average = Average(model, buffers)
    trial = trial_of(model, classes(8), cross_entropy)
    plain = trial.train_step

    def step(batch: Any, index: int) -> Any:
        metrics: dict[str, Tensor] = dict(plain(batch, index))
        if update:
            average.update()
        return metrics

    def evaluate(batch: Any) -> dict[str, float]:
        with torch.no_grad():
            return {"val_loss": float(cross_entropy(average.shadow.eval(), batch))}

    trial.train_step, trial.objects = step, (average,)
    trial.evaluate_step = evaluate if evaluated else trial.evaluate_step
    return trial


def test_parameters_averaged_without_buffers() -> None:
    verdict = ask("average-without-buffers", averaged(buffers=False))
    says(verdict, Outcome.FAIL, "`shadow` averages the parameters of `model`", "`1.running_mean`")


def test_statistics_that_may_be_recomputed_only_warn() -> None:
    says(ask("average-without-buffers", averaged(buffers=False, evaluated=False)), Outcome.WARN)


def test_averages_that_follow_pass() -> None:
    says(ask("average-without-buffers", averaged(buffers=True)), Outcome.PASS, "all 2 running statistics")
    says(ask("average-without-buffers", averaged(buffers=False, norm=False)), Outcome.PASS)


def test_a_frozen_reference_is_left_open() -> None:
    says(ask("average-without-buffers", averaged(buffers=False, update=False)), Outcome.INCONCLUSIVE, "did not change")
