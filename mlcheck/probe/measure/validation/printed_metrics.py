"""The metrics that a script only prints, where every prediction is made right, and where every one is made wrong.

The evaluation is the script's own; the model's output is replaced by the labels. What is printed in the end must be
1 and 0 then, whatever the model, and a number that does not follow its outputs is none of its metrics.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import Clock
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.modules import ModuleWatch
from mlcheck.probe.measure.tree import leaves
from mlcheck.probe.measure.validation.printed_text import Heard, Printed, metrics_in
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import NotReached, Trial

BATCHES = 12
Said = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True, slots=True)
class PrintedMetrics:
    """`printed` with its value for right predictions as `one` and for wrong ones as `other`.

    `shares` are what a share may be where all is right: 1, or as many of the split as were evaluated. `last_only` is
    printed with the last batch right alone, whose samples are `last_share` of all; None where all batches are alike.
    `lowered` are printed where the scores of two classes rank all samples right and lie below every threshold.
    `both_in_all` says that every batch has labels 0 and 1, and no others.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 40

    printed: tuple[Printed, ...]
    batches: int
    samples: int
    shares: tuple[float, ...]
    place: Location
    last_only: tuple[Printed, ...] = ()
    last_share: float | None = None
    lowered: tuple[Printed, ...] = ()
    both_in_all: bool = False

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:
        if trial.end_evaluation is None:
            raise NotMeasured("the program does not end its own evaluation")
        clock = Clock(min(8.0, seconds / 3))
        right = _evaluated(trial, lambda labels, _: labels)
        if not clock.left():
            raise NotMeasured("an evaluation takes too long to be run again")
        wrong = _evaluated(trial, _others)
        printed = tuple(metrics_in(right.lines, wrong.lines))
        if not printed:
            raise NotMeasured("the evaluation prints no metric of a name that is known")
        lowered: tuple[Printed, ...] = ()
        if any(one.kind == "auc" for one in printed) and clock.left():
            with suppress(NotMeasured):  # scores that the loss of the evaluation refuses
                low = _evaluated(trial, lambda labels, _: 4 * labels - 5)
                lowered = tuple(one for one in metrics_in(low.lines, wrong.lines) if one.kind == "auc")
        last: tuple[Printed, ...] = ()
        uneven = right.whole and len(right.sizes) > 1 and right.sizes[-1] != right.sizes[0]
        if uneven and clock.left():
            count = len(right.sizes)
            only = _evaluated(trial, lambda labels, batch: labels if batch == count - 1 else _others(labels, batch))
            last = tuple(metrics_in(only.lines, wrong.lines))
        samples = sum(right.sizes)
        shares = (1.0,) if right.whole else (1.0, *right.of_split)
        share = right.sizes[-1] / samples if last else None
        return cls(printed, len(right.sizes), samples, shares, right.place, last, share, lowered, right.both_in_all)


@dataclass(frozen=True, slots=True)
class _Evaluated:
    lines: list[str]
    sizes: list[int]
    whole: bool
    of_split: tuple[float, ...]
    place: Location
    both_in_all: bool


def _others(labels: Tensor, _: int) -> Tensor:
    """For every label another."""
    return (labels + 1) % max(2, int(labels.max()) + 1)


def _evaluated(trial: Trial, said: Said) -> _Evaluated:
    """What the script prints of an evaluation in which the model says what `said` makes of the labels of a batch."""
    answer = _Answer(said)
    watch, heard = ModuleWatch(reply=answer.reply), Heard()
    try:
        with restored(trial), heard, watch:
            whole, ended = _passed(trial, answer)
    except NotReached as why:
        raise NotMeasured(f"the script does not evaluate often enough to be compared: {why}") from None
    except NotMeasured:
        raise
    except Exception as error:
        raise NotMeasured("with its outputs replaced, the evaluation raises an error") from error
    if not ended or not answer.sizes:
        raise NotMeasured("the evaluation is not one pass over the validation data, after which it trains on")
    loader = trial.loaders.get("validation")
    place = next((call.place for call in watch.calls if call.place.path), Location(*trial.entry))
    return _Evaluated(heard.lines, answer.sizes, whole, _of_split(answer.sizes, loader), place, answer.both_in_all)


def _passed(trial: Trial, answer: _Answer) -> tuple[bool, bool]:
    """Evaluate some batches and let the script go on: whether that was all of them, and whether it then trained on."""
    assert trial.evaluate_step is not None
    assert trial.validation_batches is not None
    assert trial.end_evaluation is not None
    batches = trial.validation_batches()
    for batch in islice(batches, BATCHES):
        answer.ask(batch)
        trial.evaluate_step(batch)
        answer.check()
    whole = next(batches, None) is None
    return whole, trial.end_evaluation()


def _of_split(sizes: list[int], loader: Any) -> tuple[float, ...]:
    """Which share of the samples and of the batches of a split were evaluated, where these are known."""
    try:
        return sum(sizes) / len(loader.dataset), len(sizes) / len(loader)
    except (AttributeError, TypeError, ZeroDivisionError):
        return ()


class _Answer:
    """Replaces the output of the model: one score a class, or a number or a class a sample."""

    def __init__(self, said: Said) -> None:
        self.sizes: list[int] = []
        self.both_in_all = True
        self._said = said
        self._labels: Tensor | None = None
        self._replaced = False

    def ask(self, batch: Any) -> None:
        """The labels of the next batch. Raises NotMeasured where it is not clear which they are."""
        found = [
            leaf.flatten() for _, leaf in leaves(batch) if leaf.ndim and leaf.numel() == len(leaf) and _is_label(leaf)
        ]
        if len(found) != 1:
            raise NotMeasured("the validation batch has no one class label a sample")
        self._labels, self._replaced = found[0].long(), False
        self.sizes.append(len(found[0]))
        self.both_in_all = self.both_in_all and set(self._labels.tolist()) == {0, 1}

    def check(self) -> None:
        if not self._replaced:
            raise NotMeasured("the evaluation does not call a model for one score a class")

    def reply(self, output: Any) -> Any:
        labels = self._labels
        if labels is None or not isinstance(output, Tensor) or not len(labels) or output.shape[:1] != labels.shape:
            return output
        said = self._said(labels, len(self.sizes) - 1).to(output.device)
        if output.ndim == 2 and output.shape[1] > max(1, int(labels.max())) and output.is_floating_point():
            if bool((said < 0).any()):
                return output  # one score a class has no threshold to lie below
            new = torch.nn.functional.one_hot(said.clamp(max=output.shape[1] - 1), output.shape[1]).to(output)
        elif output.numel() == len(labels) and (int(labels.max()) <= 1 or not output.is_floating_point()):
            new = said.to(output).reshape(output.shape)
        else:
            return output
        self._replaced = True
        return new


def _is_label(leaf: Tensor) -> bool:
    if leaf.is_complex() or leaf.dtype is torch.bool or not leaf.numel() or bool((leaf < 0).any()):
        return False
    return not leaf.is_floating_point() or bool(((leaf == 0) | (leaf == 1)).all())
