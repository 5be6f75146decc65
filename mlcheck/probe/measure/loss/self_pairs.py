"""Whether a contrastive loss leaves each view among those that it has to be told apart from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import first_batches
from mlcheck.probe.measure.loss.losses import LossCall
from mlcheck.probe.measure.loss.own_rivals import own_rivals
from mlcheck.probe.measure.loss.view_pairs import scored_views
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.trial.trial import Trial

_BATCHES = 3


@dataclass(frozen=True, slots=True)
class SelfPairs:
    """Symmetric scores of all views by all, `rows` of them, none of which has its own column as its target.

    `kept_in` says that each row's own column holds its largest score, the view's likeness to itself, or, where the loss
    is `written` by hand, that this is in the sum which it divides by.
    """

    reach: ClassVar[Reach] = "step"
    order: ClassVar[int] = 6

    kept_in: bool
    rows: int
    place: Location
    written: bool = False

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - a few steps, whatever the limit
        calls = [call for batch in first_batches(trial, _BATCHES) if (call := scored_views(trial, batch))]
        if not calls and (found := own_rivals(trial)):
            return cls(True, found.rows, found.place, written=True)
        if not calls or not all(map(_all_by_all, calls)):
            raise NotMeasured("no loss compares all views of a batch with all")
        return cls(all(map(_own_is_largest, calls)), sum(len(call.input) for call in calls), calls[0].place)


def _all_by_all(call: LossCall) -> bool:
    scores = call.input
    if scores.shape[0] != scores.shape[1] or not torch.allclose(scores, scores.T, rtol=1e-4):
        return False
    return not bool((call.target.to(scores.device) == torch.arange(len(scores), device=scores.device)).any())


def _own_is_largest(call: LossCall) -> bool:
    """Beside equal ones too, as of a view that is there twice; in a row where all are equal none is."""
    scores = call.input
    return bool(((scores.diagonal() >= scores.amax(1)) & (scores.diagonal() > scores.amin(1))).all())
