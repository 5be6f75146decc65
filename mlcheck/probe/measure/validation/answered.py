"""The metrics of validation batches where every prediction is made right, and where every one is made wrong.

The evaluation is the program's own; the output of its model is replaced by the classes of the batch, one a sample, a
pixel or a token. A share of right answers is 1 then, whatever the model, and less where all are wrong. Training tells
whether an output says yes where it is large: a distance says so where it is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
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
from mlcheck.probe.measure.tree import beside, copied, leaves, map_tensors
from mlcheck.probe.measure.validation.class_scores import class_counts, scored_classes
from mlcheck.probe.measure.validation.logged import metrics_alone, numbers
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 2
SCALES = (1.0, 40.0)  # as chances, and as scores of which a softmax or sigmoid makes certainty
_MOST_CLASSES = 1000
_LEFT_OUT = -100

Metrics = dict[str, float]


@dataclass(frozen=True, slots=True)
class Answers:
    """The metrics of one batch of `samples` as they are, with wrong answers, and with right ones at each scale.

    `complete` says that every class that the model has a score for is among the labels, of masks in every sample.
    """

    samples: int
    given: Metrics
    wrong: Metrics
    right: tuple[Metrics, ...]
    complete: bool

    def at_best(self, name: str) -> float:
        return max(metrics[name] for metrics in self.right if name in metrics)


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
        given, outputs = _evaluated(trial, batch, None, calls)
    pair = _pair(batch, outputs, losses)
    if pair is None or not given:
        return None
    output, label = pair
    said, others = _said_and_not(label, order_given(batch, calls))
    classes = _classes(output, label)
    if classes > int(label.max()) + 1 and classes not in scored | class_counts(losses):
        return None  # as many numbers as an embedding has
    right, wrong = (
        tuple(_evaluated(trial, batch, _scores(output, one, classes, scale))[0] for scale in SCALES)
        for one in (said, others)
    )
    if label.ndim == 2 and output.ndim == 3:  # a program may compare each place with the label of the next
        ahead = _scores(output, said.roll(-1, 1), classes, SCALES[-1])
        right = (*right, _evaluated(trial, batch, ahead)[0])
    worst = {name: min(metrics.get(name, value) for metrics in wrong) for name, value in wrong[0].items()}
    return Answers(len(label), given, worst, right, _holds_all(label, max(2, classes)))


def _pair(batch: Any, outputs: list[Tensor], losses: LossWatch) -> tuple[Tensor, Tensor] | None:
    """The one output of the model that answers labels of the batch, and these."""
    labels = [leaf for _, leaf in leaves(batch) if _is_classes(leaf)]
    labels += [leaf[:, 1:] for leaf in labels if leaf.ndim == 2 and leaf.shape[1] > 2]  # what follows a decoder's start
    pairs = [
        (output, beside(label, output)) for output in _each_once(outputs) for label in labels if _classes(output, label)
    ]
    if pairs and pairs[0][0].shape[:-1] == pairs[0][1].shape and pairs[0][0].ndim > 2:  # or else codes of something
        scored = [call.input.flatten() for call in losses.calls if call.kind == "cross_entropy"]
        pairs = [pair for pair in pairs if any(torch.equal(one, pair[0].flatten()) for one in scored)]
    return pairs[0] if len(pairs) == 1 else None


def _each_once(outputs: list[Tensor]) -> list[Tensor]:
    """Without those that a model gave again: for the loss, say, and for the metrics."""
    return [
        output
        for place, output in enumerate(outputs)
        if not any(output.shape == other.shape and torch.equal(output, other) for other in outputs[:place])
    ]


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
    pair = _pair(batch, outputs, losses)
    if pair is None:
        return False
    output, label = pair
    right, wrong = (
        [_trained(trial, batch, _scores(output, one, _classes(output, label), scale))[0] for scale in SCALES]
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


def _evaluated(
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


def _is_classes(leaf: Tensor) -> bool:
    if leaf.is_complex() or not leaf.numel() or not leaf.ndim or bool((leaf < 0).all()):
        return False
    if bool(((leaf < 0) & (leaf != _LEFT_OUT)).any()) or (leaf.ndim < 2 and bool((leaf < 0).any())):
        return False
    return not leaf.is_floating_point() or bool(((leaf == 0) | (leaf == 1)).all())


def _classes(output: Tensor, label: Tensor) -> int:
    """How many classes the output scores for each label: 1 for one score for two classes, 0 where it is no answer."""
    if not output.is_floating_point() or not output.ndim:
        return 0
    if output.shape == label.shape or output.shape == (*label.shape, 1) or _beside(output, 1) == label.shape:
        return int(int(label.max()) <= 1)
    if output.ndim != label.ndim + 1 or output.ndim < 2:
        return 0
    count = output.shape[1] if _beside(output, output.shape[1]) == label.shape else 0
    if not count and output.ndim > 2 and output.shape[:-1] == label.shape:
        count = output.shape[-1]
    return count if int(label.max()) < count <= _MOST_CLASSES and not label.is_floating_point() else 0


def _beside(output: Tensor, channels: int) -> tuple[int, ...]:
    """The shape of the output without its channels, where it has so many."""
    fits = output.ndim > 1 and output.shape[1] == channels
    return (output.shape[0], *output.shape[2:]) if fits else ()


def _holds_all(label: Tensor, classes: int) -> bool:
    """Whether every class is there: in a mask, in every sample, as what is averaged over samples asks for."""
    samples = label.flatten(1) if label.ndim > 1 and label.shape[1:].numel() > 1 else label.reshape(1, -1)
    return all(bool((samples == one).any(1).all()) for one in range(classes))


def _scores(output: Tensor, said: Tensor, classes: int, scale: float) -> Tensor:
    """The output of a model that says `said`, and no doubt about it."""
    if classes > 1:
        certain = torch.nn.functional.one_hot(said, classes) * scale
        return certain if certain.shape == output.shape else certain.movedim(-1, 1)
    sure = said.double().reshape(output.shape)
    return sure if scale == 1 else (2 * sure - 1) * scale
