"""One training step on a batch as small as the last of an epoch, which a short run does not come to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, combinations
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import raised_at
from mlcheck.probe.measure.tree import batch_size, leaves, map_tensors, rows
from mlcheck.trial.generators import seed_all
from mlcheck.trial.traceback import error_line, user_traceback
from mlcheck.trial.trial import NotReached, Trial

_MOST_SQUARES = 3


@dataclass(frozen=True, slots=True)
class LastBatch:
    """The last batch of an epoch has `samples`, the others `whole`; `error` is what a step on so few raises, if any."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 3

    samples: int
    whole: int
    error: str = ""
    traceback: str = ""
    place: Location = field(default_factory=Location)

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one step, whatever the limit
        left, whole = _left_over(trial)
        batch = first_batches(trial, 1)[0]
        if batch_size(batch) != whole:
            raise NotMeasured("the samples of a batch cannot be counted")
        errors = []
        for smaller in _smaller(batch, left):
            if (error := _raised(trial, smaller)) is None:
                return cls(left, whole)
            errors.append(error)
        return cls(left, whole, error_line(errors[0]), user_traceback(errors[0]), raised_at(errors[0]))


def _smaller(batch: Any, left: int) -> Iterator[Any]:
    """The first samples of a batch.

    A tensor as wide as the batch is long may tell of pairs of samples: ranks, distances, edges. Then fewer samples are
    fewer columns, too.
    """
    fewer = rows(batch, torch.arange(left))
    yield fewer
    squares = [name for name, tensor in leaves(batch) if tensor.ndim > 1 and tensor.shape[0] == tensor.shape[1]]
    some = chain.from_iterable(combinations(squares[:_MOST_SQUARES], count + 1) for count in range(_MOST_SQUARES))
    for paired in some:
        cut = iter([tensor[:, :left] if name in paired else tensor for name, tensor in leaves(fewer)])
        yield map_tensors(fewer, lambda _, cut=cut: next(cut))  # type: ignore[misc]


def _raised(trial: Trial, batch: Any) -> Exception | None:
    """What a training step on this batch raises."""
    seed_all(0)
    try:
        trial.train_step(map_tensors(batch, Tensor.clone), 0)
    except NotReached:
        raise
    except Exception as error:
        return error
    return None


def _left_over(trial: Trial) -> tuple[int, int]:
    """How many samples the last batch of an epoch has, and the others. Raises NotMeasured where all are alike."""
    loader = trial.loaders.get("training")
    whole = getattr(loader, "batch_size", None)
    try:
        samples = len(loader.sampler)  # type: ignore[union-attr]
    except (AttributeError, TypeError):
        samples = 0
    if not trial.repeats_batches or not isinstance(whole, int) or getattr(loader, "drop_last", True) or samples < whole:
        raise NotMeasured("how large the last batch of an epoch is, is not known")
    if not samples % whole:
        raise NotMeasured("all batches of an epoch are of one size")
    return samples % whole, whole
