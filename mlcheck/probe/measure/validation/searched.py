"""What the search of an experiment goes by, beside the metrics that evaluation really returns."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Self

from mlcheck.core.finding import Location
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured, Reach
from mlcheck.probe.measure.validation.logged import metrics_alone
from mlcheck.trial.sandbox import restored
from mlcheck.trial.trial import Trial


@dataclass(frozen=True, slots=True)
class Searched:
    """`metric` is named by the experiment's searcher, which keeps its `smallest` value, or else its largest.

    `returned` are the metrics of the first validation batch.
    """

    reach: ClassVar[Reach] = "data"
    order: ClassVar[int] = 36

    metric: str
    smallest: bool
    returned: tuple[str, ...]
    place: Location

    @classmethod
    def measure(cls, trial: Trial, seconds: float) -> Self:  # noqa: ARG003 - one batch, whatever the limit
        if not trial.searched_metric:
            raise NotMeasured("no experiment config names a metric that a search goes by")
        if trial.evaluate_step is None or trial.validation_batches is None:
            raise NotMeasured("the trial does not evaluate")
        with restored(trial):
            returned = [tuple(map(str, metrics_alone(trial, batch))) for batch in islice(trial.validation_batches(), 1)]
        if not returned or not returned[0]:
            raise inconclusive("evaluation returns no metric by name")
        if trial.end_validation and trial.searched_metric not in returned[0]:
            raise inconclusive(f"reducers make no `{trial.searched_metric}` of one batch, and may of a whole split")
        return cls(trial.searched_metric, trial.searches_smallest, returned[0], Location(*trial.entry))
