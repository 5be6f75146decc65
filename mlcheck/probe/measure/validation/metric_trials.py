"""The user's metrics on a validation batch, on the batch with every sample twice, and on a part of it; recomputed."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModelCall, ModuleWatch
from mlcheck.probe.measure.tree import batch_size, copied, leaves, map_tensors, rows
from mlcheck.probe.measure.validation.logged import metrics_alone, numbers
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 3


@dataclass(frozen=True, slots=True)
class MetricTrial:
    """One validation batch of `samples`. `references` are what each name may mean, computed from the model's output."""

    samples: int
    whole: dict[str, float]
    twice: dict[str, float] = field(default_factory=dict)
    part: dict[str, float] = field(default_factory=dict)
    references: dict[str, dict[str, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class MetricTrials:
    """Up to three validation batches, of a program that may return no metric of any.

    `summed` says that the program has a reducer of its own for its metrics, `at_once` that it evaluates a whole split,
    of which a batch alone is given to it here.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 35

    trials: tuple[MetricTrial, ...]
    summed: bool
    at_once: bool = False

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        if trial.evaluate_step is None or trial.validation_batches is None:
            raise NotMeasured("the trial has no evaluation step of its own")
        with restored(trial):
            batches = [map_tensors(b, Tensor.detach) for b in islice(trial.validation_batches(), BATCHES)]
        found = [_tried(trial, batch) for batch in batches]
        kinds = [
            kind
            for owner in trial.objects
            for kind in type(owner).__mro__
            if not kind.__module__.startswith("mlcheck.")
        ]
        own = {name for kind in kinds for name in vars(kind)}
        return cls(tuple(found), "evaluation_reducer" in own, "evaluate_full_dataset" in own)


def _tried(trial: Trial, batch: Any) -> MetricTrial:
    size = batch_size(batch)
    whole, calls = _evaluated(trial, batch)
    if size is None or size < 4:
        return MetricTrial(size or 1, whole)
    twice = _without_errors(trial, rows(batch, torch.arange(size).repeat_interleave(2)))
    part = _without_errors(trial, rows(batch, torch.arange(size // 2 + 1)))
    return MetricTrial(size, whole, twice, part, _references(calls, batch, size))


def _evaluated(trial: Trial, batch: Any) -> tuple[dict[str, float], list[ModelCall]]:
    watch = ModuleWatch()
    with restored(trial), watch:
        seed_all(0)
        metrics = metrics_alone(trial, copied(batch))
    return numbers(metrics), watch.calls


def _without_errors(trial: Trial, batch: Any) -> dict[str, float]:
    try:
        return _evaluated(trial, map_tensors(batch, Tensor.contiguous))[0]
    except Exception:  # a model for one batch size
        return {}


def _references(calls: list[ModelCall], batch: Any, size: int) -> dict[str, dict[str, float]]:
    """What the usual metrics are for the one model call's scores and the batch's one class label a sample."""
    labels = [t for _, t in leaves(batch) if t.ndim == 1 and len(t) == size and not t.is_complex()]
    labels = [t for t in labels if bool((t == t.round()).all()) and not bool((t < 0).any())]
    if len(calls) != 1 or len(labels) != 1 or not isinstance(calls[0].output, Tensor):
        return {}
    scores, truth = calls[0].output.detach().double().cpu(), labels[0].long().cpu()
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.shape == (size,):
        found = _named((scores > 0.0).long(), truth, scores)
        if float(scores.min()) >= 0 and float(scores.max()) <= 1:  # chances, or logits that happen to lie there
            for name, values in _named((scores > 0.5).long(), truth, scores).items():
                found[name] = {**values, **{f"{kind}, of logits": value for kind, value in found[name].items()}}
        return found
    if scores.ndim != 2 or len(scores) != size or int(truth.max()) >= scores.shape[1]:
        return {}
    return _named(scores.argmax(1), truth, scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else None)


def _named(predicted: Tensor, truth: Tensor, ranking: Tensor | None) -> dict[str, dict[str, float]]:
    """By scikit-learn, where it is installed; accuracy without it."""
    right = float((predicted == truth).double().mean())
    found = {"accuracy": {"accuracy": right}}
    try:
        metrics = import_module("sklearn.metrics")
    except ImportError:
        return found
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found["accuracy"]["balanced"] = float(metrics.balanced_accuracy_score(truth, predicted))
        score: dict[str, Any] = {
            "f1": metrics.f1_score,
            "precision": metrics.precision_score,
            "recall": metrics.recall_score,
        }
        binary = set(truth.tolist()) | set(predicted.tolist()) <= {0, 1}
        for name, function in score.items():
            averages = ["macro", "micro", "weighted", *(["binary"] if binary else [])]
            values = {average: function(truth, predicted, average=average, zero_division=0) for average in averages}
            found[name] = {average: float(np.asarray(value)) for average, value in values.items()}
        if ranking is not None and bool(ranking.isfinite().all()) and len(set(truth.tolist())) == 2:
            found["auc"] = {"area": float(metrics.roc_auc_score(truth, ranking))}
    return found
