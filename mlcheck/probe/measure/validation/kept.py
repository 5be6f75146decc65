"""What the program's own reducers make of a validation that follows another, and of the two in one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import islice
from typing import Any, ClassVar, Self

import torch

from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.tree import copied, map_tensors
from mlcheck.probe.measure.validation.logged import numbers
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 3
CLOSE = 1e-6


@dataclass(frozen=True, slots=True)
class Kept:
    """The metrics that take the samples of the validation before for their own.

    Of each, the value of the last batch validated alone, and after a validation of the other `before` batches: the
    latter is what one validation of all has, and neither the former nor, as a best value so far may be, the earlier's.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 9

    metrics: dict[str, tuple[float, float]]
    before: int

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few batches, whatever the limit
        if trial.evaluate_step is None or trial.validation_batches is None or trial.end_validation is None:
            raise NotMeasured("no reducer of the program's own makes a metric of a validation")
        with restored(trial):
            batches = [map_tensors(batch, torch.Tensor.detach) for batch in islice(trial.validation_batches(), BATCHES)]
        if len(batches) < BATCHES:
            raise inconclusive("two validations of different length need three batches")
        *earlier, last = range(BATCHES)
        alone, again = (_validated(trial, batches, [[last]]) for _ in range(2))
        first, both = _validated(trial, batches, [earlier]), _validated(trial, batches, [[*earlier, last]])
        after = _validated(trial, batches, [earlier, [last]])
        kept = {
            name: (value, after[name])
            for name, value in alone.items()
            if all(name in other for other in (again, first, both, after))
            and _same(value, again[name])
            and math.isclose(after[name], both[name], rel_tol=CLOSE)
            and not any(math.isclose(after[name], other, rel_tol=CLOSE) for other in (value, first[name]))
        }
        return cls(kept, len(earlier))


def _validated(trial: Trial, batches: list[Any], validations: list[list[int]]) -> dict[str, float]:
    """What reducers make of the last of these validations; a batch draws the same wherever it comes."""
    assert trial.evaluate_step is not None
    assert trial.end_validation is not None
    with restored(trial):
        for validation in validations:
            trial.end_validation()
            for place in validation:
                seed_all(place)
                trial.evaluate_step(copied(batches[place]))
            reduced = trial.end_validation()
        return numbers(reduced)


def _same(one: float, other: float) -> bool:
    return one == other or (one != one and other != other)
