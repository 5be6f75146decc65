"""Held-out metrics of one graph whose evaluation counts nodes that the training loss goes by.

Both splits are the same tensors, all of them; masks in the batch or the program's own tell the splits apart. The output
of the model is replaced by right answers, but for nodes that are trained on: a metric of others stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModelCall
from mlcheck.probe.measure.tree import leaves
from mlcheck.probe.measure.validation.answer_pairs import answer_pair, classes_of
from mlcheck.probe.measure.validation.answered import SCALES, evaluated_as, scores_of
from mlcheck.probe.measure.validation.left_out import gradients_of
from mlcheck.probe.measure.validation.metric_names import is_held_out, is_plain_accuracy
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

_NEAR = 0.02


@dataclass(frozen=True, slots=True)
class TrainedPlaces:
    """Of the `evaluated` nodes that `metric` counts, how many are `shared` with the training loss."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 6

    metric: str
    shared: int
    evaluated: int
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        if trial.evaluate_step is None or trial.validation_batches is None:
            raise NotMeasured("the trial has no evaluation step of its own")
        with restored(trial):
            held_out = next(iter(trial.validation_batches()), None)
        if not _same(first_batches(trial, 1)[0], held_out):
            raise NotMeasured("the two splits are not the same tensors")
        losses, calls = LossWatch(), list[ModelCall]()
        with losses:
            given, outputs = evaluated_as(trial, held_out, None, calls)
        pair = answer_pair(held_out, outputs, losses)
        names = [name for name in given if is_plain_accuracy(name) and is_held_out(name)]
        if pair is None or pair[1].ndim != 1 or not names:
            raise NotMeasured("no accuracy of held-out nodes is computed from classes of a batch")
        _, felt = gradients_of(trial, held_out, pair[0])
        if len(felt) != 1:
            raise NotMeasured("the training loss does not go by one output of a model")
        trained = felt[0].reshape(len(pair[1]), -1).ne(0).any(1).nonzero()[:, 0]
        for name in names:
            counted = _counted(trained, partial(_without, trial, held_out, pair, name))
            if counted:
                return cls(name, *counted, calls[0].place)
        return cls(names[0], 0, 0, calls[0].place)


def _same(one: Any, other: Any) -> bool:
    mine, theirs = dict(leaves(one)), dict(leaves(other))
    return bool(mine) and mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


def _without(trial: Trial, batch: Any, pair: tuple[Tensor, Tensor], name: str, places: Tensor) -> float | None:
    """The metric where the model is right, but for these places."""
    output, label = pair
    classes, said = classes_of(output, label), label.long().clone()
    said[places] = (said[places] + 1) % max(2, classes)
    return evaluated_as(trial, batch, scores_of(output, said, classes, SCALES[-1]))[0].get(name)


def _counted(trained: Tensor, value: Callable[[Tensor], float | None]) -> tuple[int, int] | None:
    """How many of these places a metric counts, and of how many, where one of them alone is seen to be counted.

    What is spread along the edges of a graph after the model does not change with a single answer.
    """
    best, without = value(trained[:0]), value(trained)
    full = next((full for full in (1.0, 100.0) if best is not None and abs(best / full - 1) < _NEAR), 0.0)
    if best is None or without is None or not full or without >= best:
        return None
    while len(trained) > 1:
        half = trained[: len(trained) // 2]
        lower = value(half)
        trained = half if lower is not None and lower < best else trained[len(trained) // 2 :]
    alone = value(trained)
    each = 0.0 if alone is None else (best - alone) / full
    if each <= 0 or abs(1 / each - round(1 / each)) > _NEAR:
        return None
    return round((best - without) / full / each), round(1 / each)
