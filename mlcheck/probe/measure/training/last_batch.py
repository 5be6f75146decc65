"""One training step on a batch as small as the last of an epoch, which a short run does not come to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Self

import torch
from torch import Tensor

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.place import raised_at
from mlcheck.probe.measure.tree import batch_size, map_tensors, rows
from mlcheck.trial.generators import seed_all
from mlcheck.trial.traceback import error_line, user_traceback
from mlcheck.trial.trial import NotReached, Trial


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
        seed_all(0)
        try:
            trial.train_step(map_tensors(rows(batch, torch.arange(left)), Tensor.clone), 0)
        except NotReached:
            raise
        except Exception as error:
            return cls(left, whole, error_line(error), user_traceback(error), raised_at(error))
        return cls(left, whole)


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
