"""The metrics of validation batches where every prediction is made right, and where every one is made wrong.

The evaluation is the program's own; the output of its model is replaced by the classes of the batch, one a sample, a
pixel or a token. A share of right answers is 1 then, whatever the model, and less where all are wrong, be the padding
that the loss leaves out right or not. Training tells whether an output says yes where it is large: a distance says so
where it is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LossWatch
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.row_order import order_given
from mlcheck.probe.measure.modules import ModelCall, ModuleWatch
from mlcheck.probe.measure.training.gradients import GradientWatch, loss_of_step
from mlcheck.probe.measure.tree import copied, map_tensors
from mlcheck.probe.measure.validation.answer_pairs import answer_pair, classes_of
from mlcheck.probe.measure.validation.class_scores import class_counts, scored_classes
from mlcheck.probe.measure.validation.left_out import left_out
from mlcheck.probe.measure.validation.logged import metrics_alone, numbers
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 2
SCALES = (1.0, 40.0)  # as chances, and as scores of which a softmax or sigmoid makes certainty

Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class Answers:
    """The metrics of one batch of `samples` as they are, with wrong answers, and with right ones at each scale.

    `complete` says that every class that the model has a score for is among the labels, of masks in every sample.
    Where the loss leaves labels out, this `share` of them, `padding_right` are the metrics with these right alone.
    """

    samples: int
    given: Metrics
    wrong: Metrics
    right: tuple[Metrics, ...]
    complete: bool
    share: float = 0.0
    padding_right: Metrics = field(default_factory=dict)

    def at_best(self, name: str) -> float:
        return max(metrics[name] for metrics in self.right if name in metrics)

    def counts_padding(self, name: str, near: float) -> bool:
        """Whether all are right at best, and as many as are left out by the loss where these alone are."""
        best, alone = self.at_best(name), self.padding_right[name]
        told = (abs(best / full - 1) < near and abs(alone / full - self.share) < near for full in (1, 100))
        return self.share > near and any(told)


@dataclass(frozen=True, slots=True)
class Answered:
    """Up to two validation batches whose labels the model could have answered."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 20

    batches: tuple[Answers, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        if trial.evaluate_step is None or trial.validation_batches is None:
            raise NotMeasured("the trial has no evaluation step of its own")
        with restored(trial):
            batches = [map_tensors(batch, Tensor.detach) for batch in islice(trial.validation_batches(), BATCHES)]
        scored = scored_classes(trial)
        found = [answers for batch in batches if (answers := _answers(trial, batch, scored)) is not None]
        if not found:
            raise NotMeasured("no one output of a model answers the classes of a validation batch")
        if _learned_upside_down(trial):
            raise NotMeasured("training has its least loss where the output says the opposite of the label")
        return cls(tuple(found))


def _answers(trial: Trial, batch: Any, scored: frozenset[int]) -> Answers | None:
    losses, calls = LossWatch(), list[ModelCall]()
    with losses:
        given, outputs = evaluated_as(trial, batch, None, calls)
    pair = answer_pair(batch, outputs, losses, scored)
    if pair is None or not given:
        return None
    output, label = pair
    said, others = _said_and_not(label, order_given(batch, calls))
    classes = classes_of(output, label)
    if classes > int(label.max()) + 1 and classes not in scored | class_counts(losses):
        return None  # as many numbers as an embedding has
    right, wrong = (
        tuple(evaluated_as(trial, batch, scores_of(output, one, classes, scale))[0] for scale in SCALES)
        for one in (said, others)
    )
    if label.ndim == 2 and output.ndim == 3:  # a program may compare each place with the label of the next
        ahead = scores_of(output, said.roll(-1, 1), classes, SCALES[-1])
        right = (*right, evaluated_as(trial, batch, ahead)[0])
    worst = {name: min(metrics.get(name, value) for metrics in wrong) for name, value in wrong[0].items()}
    answers = Answers(len(label), given, worst, right, _holds_all(label, max(2, classes)))
    padding = left_out(trial, batch, output, label)
    if not padding.any() or padding.all():
        return answers
    alone = scores_of(output, torch.where(padding, said, others), classes, SCALES[-1])
    share = float(padding.double().mean())
    return replace(answers, share=share, padding_right=evaluated_as(trial, batch, alone)[0])


def _said_and_not(label: Tensor, order: Tensor | None) -> tuple[Tensor, Tensor]:
    """The classes of the labels, in the order that the model has the samples in, and for each another one."""
    known = label.long().clamp(min=0)  # below 0 is what a loss leaves out
    known = known if order is None or len(order) != len(known) else known[order.to(known.device)]
    return known, (known + 1) % max(2, int(label.max()) + 1)


def _learned_upside_down(trial: Trial) -> bool:
    """Whether the loss of a training batch is larger where every answer is right than where every one is wrong."""
    losses, batch, calls = LossWatch(), first_batches(trial, 1)[0], list[ModelCall]()
    with losses:
        _, outputs = _trained(trial, batch, None, calls)
    pair = answer_pair(batch, outputs, losses)
    if pair is None:
        return False
    output, label = pair
    right, wrong = (
        [_trained(trial, batch, scores_of(output, one, classes_of(output, label), scale))[0] for scale in SCALES]
        for one in _said_and_not(label, order_given(batch, calls))
    )
    return all(best > worst for best, worst in zip(right, wrong))


def _trained(
    trial: Trial, batch: Any, answer: Tensor | None, calls: list[ModelCall] | None = None
) -> tuple[float, list[Tensor]]:
    """The loss of a training step on the batch and what its models gave; NaN where an answer is refused."""
    given: list[Tensor] = []

    def reply(output: Any) -> Any:
        if isinstance(output, Tensor):
            given.append(output.detach())
        fits = answer is not None and isinstance(output, Tensor) and output.shape == answer.shape
        return output - output.detach() + answer.to(output) if fits and answer is not None else output

    watch, modules = GradientWatch([]), ModuleWatch(reply=reply)
    try:
        with restored(trial), modules, watch:
            seed_all(0)
            trial.train_step(copied(batch), 0)
    except Exception:
        return math.nan, []
    if calls is not None:
        calls += modules.calls
    return loss_of_step(watch.backwards), given


def evaluated_as(
    trial: Trial, batch: Any, answer: Tensor | None, calls: list[ModelCall] | None = None
) -> tuple[Metrics, list[Tensor]]:
    """The metrics of the batch and what its models gave, or would have given; none where an answer is refused."""
    given: list[Tensor] = []

    def reply(output: Any) -> Any:
        if isinstance(output, Tensor):
            given.append(output.detach())
        fits = answer is not None and isinstance(output, Tensor) and output.shape == answer.shape
        return answer.to(output) if fits and answer is not None else output

    modules = ModuleWatch(reply=reply)
    try:
        with restored(trial), modules:
            seed_all(0)
            metrics = metrics_alone(trial, copied(batch))
    except Exception:
        if answer is None:
            raise
        return {}, []
    if calls is not None:
        calls += modules.calls
    return numbers(metrics), given


def _holds_all(label: Tensor, classes: int) -> bool:
    """Whether every class is there: in a mask, in every sample, as what is averaged over samples asks for."""
    samples = label.flatten(1) if label.ndim > 1 and label.shape[1:].numel() > 1 else label.reshape(1, -1)
    return all(bool((samples == one).any(1).all()) for one in range(classes))


def scores_of(output: Tensor, said: Tensor, classes: int, scale: float) -> Tensor:
    """The output of a model that says `said`, and no doubt about it."""
    if classes > 1:
        certain = torch.nn.functional.one_hot(said, classes) * scale
        return certain if certain.shape == output.shape else certain.movedim(-1, 1)
    sure = said.double().reshape(output.shape)
    return sure if scale == 1 else (2 * sure - 1) * scale
