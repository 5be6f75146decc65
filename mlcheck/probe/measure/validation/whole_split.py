"""What a program that evaluates a whole split by itself makes of two batches, in both orders, and of each alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from math import isclose
from typing import Any, ClassVar, Self

from torch import Tensor

from mlcheck.core.finding import Finding
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.tree import copied, map_tensors
from mlcheck.probe.measure.validation.logged import numbers
from mlcheck.trial.generators import seed_all
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial

BATCHES = 4
_SAME = 1e-6


@dataclass(frozen=True, slots=True)
class WholeSplit:
    """Metrics that are those of the last of two batches alone, whichever comes last, and those of the first alone."""

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 36

    last: tuple[str, ...]
    first: tuple[str, ...]

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few passes, whatever the limit
        if trial.evaluate_split is None or trial.validation_batches is None:
            raise NotMeasured("the program evaluates batch by batch")
        batches = [map_tensors(b, Tensor.detach) for b in islice(trial.validation_batches(), BATCHES)]
        if len(batches) < 2:
            raise NotMeasured("there is one batch of validation data")
        last: set[str] | None = None
        first: set[str] | None = None
        for one, other in pairwise(batches):
            ends, begins = _of_two(trial, one, other)
            last, first = ends if last is None else last & ends, begins if first is None else first & begins
        return cls(tuple(sorted(last or ())), tuple(sorted(first or ())))

    def findings(self) -> Iterator[Finding]:
        for names, which in ((self.last, "last"), (self.first, "first")):
            if names:
                yield Finding(
                    f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} of the {which} validation batch alone: "
                    f"of two batches, in either order, the result is that of the {which} one",
                    help="add up over all batches and divide once, after the loop",
                )


def _of_two(trial: Trial, one: Any, other: Any) -> tuple[set[str], set[str]]:
    alone, alone_too, forth, back = (
        _evaluated(trial, *given) for given in ((one,), (other,), (one, other), (other, one))
    )
    told = [name for name in alone if name in alone_too and name in forth and name in back]
    apart = [name for name in told if not _alike(alone[name], alone_too[name])]
    last = {name for name in apart if _alike(forth[name], alone_too[name]) and _alike(back[name], alone[name])}
    return last, {name for name in apart if _alike(forth[name], alone[name]) and _alike(back[name], alone_too[name])}


def _evaluated(trial: Trial, *batches: Any) -> dict[str, float]:
    assert trial.evaluate_split is not None
    with restored(trial):
        seed_all(0)
        return numbers(trial.evaluate_split([copied(batch) for batch in batches]))


def _alike(one: float, other: float) -> bool:
    return isclose(one, other, rel_tol=_SAME)
