"""The user's metrics on a validation batch, on the batch with every sample twice, and on a part of it; recomputed."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Self

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.model.row_order import order_given
from mlcheck.probe.measure.modules import ModelCall, ModuleWatch
from mlcheck.probe.measure.tree import batch_size, copied, leaves, map_tensors, rows
from mlcheck.probe.measure.validation.class_scores import scored_classes
from mlcheck.probe.measure.validation.logged import metrics_alone, numbers
from mlcheck.probe.measure.validation.recomputed import recomputed
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 3
_NEAR = 0.01
_SAME = 1e-5


@dataclass(frozen=True, slots=True)
class MetricTrial:
    """One validation batch of `samples`. `references` are what each name may mean, computed from the model's output.

    `crossed` says that each sample is compared with all others of its batch, as for retrieval. Where the model is given
    the samples in another order than they have in the batch, `unsorted` are the references for labels that stay.
    """

    samples: int
    whole: dict[str, float]
    twice: dict[str, float] = field(default_factory=dict)
    part: dict[str, float] = field(default_factory=dict)
    references: dict[str, dict[str, float]] = field(default_factory=dict)
    crossed: bool = False
    unsorted: dict[str, dict[str, float]] = field(default_factory=dict)

    def out_of_order(self, name: str, known: str) -> str:
        """The end of a sentence on a metric that is none of its references."""
        stays = self.unsorted.get(known, {}).values()
        told = "; labels give the former that stay in the batch's order, while the model has the samples in another"
        return told if any(abs(self.whole[name] - one) < _SAME for one in stays) else ""


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
        scored = scored_classes(trial)
        found = [_tried(trial, batch, scored) for batch in batches]
        kinds = [
            kind
            for owner in trial.objects
            for kind in type(owner).__mro__
            if not kind.__module__.startswith("mlcheck.")
        ]
        own = {name for kind in kinds for name in vars(kind)}
        return cls(tuple(found), "evaluation_reducer" in own, "evaluate_full_dataset" in own)


def _tried(trial: Trial, batch: Any, scored: frozenset[int]) -> MetricTrial:
    size = batch_size(batch)
    whole, calls = _evaluated(trial, batch)
    if size is None or size < 4:
        return MetricTrial(size or 1, whole)
    doubled = rows(batch, torch.arange(size).repeat_interleave(2))
    twice = _without_errors(trial, doubled)
    part = _without_errors(trial, rows(batch, torch.arange(size // 2 + 1)))
    halved = any(value and abs(whole.get(name, 0.0) / value - 2) < _NEAR for name, value in twice.items())
    crossed = halved and all(_crosses(trial, one, n) for one, n in ((batch, size), (doubled, 2 * size)))
    order = order_given(batch, calls)
    references = _references(calls, batch, size, scored, order)
    unsorted = {} if order is None else _references(calls, batch, size, scored, None)
    return MetricTrial(size, whole, twice, part, references, crossed, unsorted)


class _Crosses(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes whether anything computed has two dimensions of this length."""

    def __init__(self, length: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._length = length
        self.seen: bool = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.seen |= isinstance(result, Tensor) and list(result.shape).count(self._length) > 1
        return result


def _crosses(trial: Trial, batch: Any, size: int) -> bool:
    with _Crosses(size) as watch:
        _without_errors(trial, batch)
    return bool(watch.seen)


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


def _references(
    calls: list[ModelCall], batch: Any, size: int, scored: frozenset[int], order: Tensor | None
) -> dict[str, dict[str, float]]:
    """What the usual metrics are for the one model call's scores and the batch's one class label a sample."""
    labels = [t for _, t in leaves(batch) if t.ndim == 1 and len(t) == size and not t.is_complex()]
    labels = [t for t in labels if bool((t == t.long()).all()) and not bool((t < 0).any())]
    output = _scores_in(calls[0].output, size, scored) if len(calls) == 1 else None
    if len(labels) != 1 or output is None:
        return {}
    scores, truth = output.detach().double().cpu(), labels[0].long().cpu()
    truth = truth if order is None else truth[order]
    if scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if scores.shape == (size,):
        found = recomputed((scores > 0.0).long(), truth, scores)
        if float(scores.min()) >= 0 and float(scores.max()) <= 1:  # chances, or logits that happen to lie there
            for name, values in recomputed((scores > 0.5).long(), truth, scores).items():
                found[name] = {**values, **{f"{kind}, of logits": value for kind, value in found[name].items()}}
        return found
    if scores.ndim != 2 or len(scores) != size or int(truth.max()) >= scores.shape[1]:
        return {}
    if scores.shape[1] > int(truth.max()) + 1 and scores.shape[1] not in scored:
        return {}
    return recomputed(scores.argmax(1), truth, scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else None)


def _scores_in(output: Any, size: int, scored: frozenset[int]) -> Tensor | None:
    """What a model says, where it is one tensor; of several the one that a cross-entropy is seen to use as scores."""
    if isinstance(output, Tensor):
        return output
    told = [t for _, t in leaves(output) if t.ndim == 2 and len(t) == size and t.shape[1] in scored]
    return told[0] if len(told) == 1 else None
