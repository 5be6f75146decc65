"""What enters the loss functions: on real batches, and once more with the model's input scrambled."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor, nn

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LossCall, LossWatch
from mlcheck.probe.measure.measurement import Reach
from mlcheck.probe.measure.modules import Arguments, ModuleWatch
from mlcheck.probe.measure.tree import map_tensors
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 3
ROW_SUM_TOLERANCE = 1e-5
HALF_TOLERANCE = 1e-2


@dataclass(frozen=True, slots=True)
class LossInput:
    """All inputs of one place where a loss is computed. Rows run over the class dimension, dimension 1.

    `row_sum_error` is the largest distance of a row's sum from 1, `exp_row_sum_error` the same for the
    exponentials. `distributions` says that every row is one, within rounding; `..._when_scrambled` the same for
    inputs scaled up and random, None where the model could not be run on them. `clipped` says that a relu made it,
    `scores_by` what made the scores of the log_softmax that did.
    `rounding` is how far a number may be from the one that was meant, as a part of it: a logarithm's goes into its
    exponential whole.
    """

    kind: str
    place: Location
    made_by: str
    classes: int
    low: float
    high: float
    row_sum_error: float
    exp_row_sum_error: float
    tolerance: float
    finite: bool
    clipped: bool = False
    scores_by: str = ""
    distributions_when_scrambled: bool | None = None
    rounding: float = 0.0

    @property
    def distributions(self) -> bool:
        return self.row_sum_error <= self.tolerance and self.low >= -self.tolerance

    @property
    def log_distributions(self) -> bool:
        return self.exp_row_sum_error <= max(self.tolerance, 1e-3, self.rounding * math.log(max(self.classes, 2)))


@dataclass(frozen=True, slots=True)
class LossInputs:
    """The inputs of every recognised loss in three training steps, by place."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 8

    inputs: tuple[LossInput, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        batches = first_batches(trial, BATCHES)
        watch = LossWatch()
        with restored(trial), watch:
            for index, batch in enumerate(batches):
                trial.train_step(batch, index)
        scrambled = _scrambled_calls(trial, batches[0])
        by_place: dict[tuple[str, Location], list[LossCall]] = {}
        for call in (*watch.calls, *map(_frames, watch.alignments)):
            if call.node is not None and call.input.numel():
                by_place.setdefault((call.kind, call.place), []).append(call)
        return cls(tuple(_summary(calls, scrambled) for calls in by_place.values()))

    def of(self, kind: str) -> list[LossInput]:
        return [found for found in self.inputs if found.kind == kind]


def _summary(calls: list[LossCall], scrambled: list[LossCall] | None) -> LossInput:
    first = calls[0]
    rows = [_rows(call.input) for call in calls]
    again = [c for c in scrambled or () if (c.kind, c.place) == (first.kind, first.place) and c.input.numel()]
    tolerance = HALF_TOLERANCE if first.input.dtype in (torch.float16, torch.bfloat16) else ROW_SUM_TOLERANCE
    return LossInput(
        kind=first.kind,
        place=first.place,
        made_by=first.made_by if all(call.made_by == first.made_by for call in calls) else "",
        classes=max(row.shape[1] for row in rows),
        low=min(float(row.min()) for row in rows),
        high=max(float(row.max()) for row in rows),
        row_sum_error=max(_sum_error(row) for row in rows),
        exp_row_sum_error=max(_sum_error(row.exp()) for row in rows),
        tolerance=tolerance,
        finite=all(bool(row.isfinite().all()) for row in rows),
        clipped=all(call.bounded_by == "relu" for call in calls),
        scores_by=first.scores_by
        if all((call.made_by, call.scores_by) == ("log_softmax", first.scores_by) for call in calls)
        else "",
        distributions_when_scrambled=all(
            _sum_error(_rows(c.input)) <= tolerance and float(c.input.min()) >= -tolerance for c in again
        )
        if again
        else None,
        rounding=max(torch.finfo(call.input.dtype).eps for call in calls),
    )


def _frames(call: LossCall) -> LossCall:
    """What `ctc_loss` reads, as rows of classes: padding behind the end of a sequence may be anything."""
    frames = call.input if call.input.ndim == 3 else call.input.unsqueeze(1)
    ends = torch.as_tensor(call.options["input_lengths"], device=frames.device).flatten()
    heard = torch.arange(len(frames), device=frames.device).unsqueeze(1) < ends
    return replace(call, input=frames[heard])


def _rows(values: Tensor) -> Tensor:
    """(N, C), whatever lies behind the class dimension."""
    wide = values.double()
    return wide.movedim(1, -1).reshape(-1, wide.shape[1]) if wide.ndim > 1 else wide.reshape(1, -1)


def _sum_error(rows: Tensor) -> float:
    return float((rows.sum(1) - 1).abs().max()) if rows.numel() else float("inf")


def _scrambled_calls(trial: Trial, batch: Any) -> list[LossCall] | None:
    """Losses of one step whose model gets noise, four times as wide as its data; None if it will not have it."""
    generator = torch.Generator().manual_seed(0)

    def scramble(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
        def noise(tensor: Tensor) -> Tensor:
            if tensor.requires_grad or not tensor.is_floating_point():
                return tensor
            spread = float(tensor.double().std(correction=0).nan_to_num(1.0)) or 1.0
            drawn = torch.randn(tensor.shape, generator=generator) * 4 * spread
            return drawn.to(tensor)

        return map_tensors((args, kwargs), noise)  # type: ignore[no-any-return]

    watch = LossWatch()
    try:
        with restored(trial), watch, ModuleWatch(scramble):
            trial.train_step(batch, 0)
    except Exception:  # a model that checks its input
        return None
    return watch.calls
