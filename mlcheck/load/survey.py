"""Every query alone in one worker, several times over: which are slow, which fail, which get no numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from mlcheck.load.crew import Casualty
from mlcheck.load.records import FAILED, Samples

_COMPLEX_SHARE = 0.05


@dataclass(frozen=True, slots=True)
class Survey:
    """`median_ms` by query number, NaN for one that was never answered. `not_finite` names places in answers."""

    names: tuple[str, ...]
    median_ms: tuple[float, ...]
    slowest_ms: tuple[float, ...]
    failing: dict[int, int]
    not_finite: dict[int, str]
    errors: tuple[dict[str, object], ...]
    passes: float
    first_query_ms: float
    load_s: float
    deaths: tuple[Casualty, ...] = ()

    @property
    def slowest(self) -> list[int]:
        """Query numbers from the slowest, by median."""
        known = [number for number, ms in enumerate(self.median_ms) if ms == ms]
        return sorted(known, key=lambda number: -self.median_ms[number])

    @property
    def worst(self) -> list[int]:
        """The slowest twentieth, at least one: worst-case queries where none were given."""
        return self.slowest[: max(1, round(len(self.slowest) * _COMPLEX_SHARE))]


def survey_of(
    samples: Samples,
    names: tuple[str, ...],
    answer: dict[str, object],
    loaded: dict[str, float],
    deaths: tuple[Casualty, ...] = (),
) -> Survey:
    """What the raw times of the passes come to; the very first query of a process is not among them."""
    median, slowest = [math.nan] * len(names), [math.nan] * len(names)
    answered = samples.answered
    order = np.argsort(answered.query, kind="stable")
    numbers, first = np.unique(answered.query[order], return_index=True)
    for number, times in zip(numbers.tolist(), np.split(answered.service_ms[order], first[1:]), strict=False):
        median[number], slowest[number] = float(np.median(times)), float(times.max())
    failing, counts = np.unique(samples.query[samples.status == FAILED], return_counts=True)
    not_finite, errors = answer.get("not_finite", {}), answer.get("errors", ())
    assert isinstance(not_finite, dict)
    assert isinstance(errors, list | tuple)
    return Survey(
        names=names,
        median_ms=tuple(median),
        slowest_ms=tuple(slowest),
        failing=dict(zip(failing.tolist(), counts.tolist(), strict=True)),
        not_finite={int(number): place for number, place in not_finite.items()},
        errors=tuple(errors),
        passes=len(samples) / max(1, len(names)),
        first_query_ms=loaded["first_ms"],
        load_s=loaded["load_s"],
        deaths=deaths,
    )
