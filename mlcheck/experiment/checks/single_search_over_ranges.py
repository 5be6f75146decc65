"""Finds ranges that a `single` searcher does not search: it draws one value of each at random."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.experiment.ranges import parameters
from mlcheck.experiment.seen import Experiment


def check(experiment: Experiment) -> Iterator[Finding]:
    document = experiment.document
    if document.text("searcher", "name") != "single":
        return
    for parameter in parameters(document):
        if parameter.is_searched():
            yield Finding(
                f"`{parameter.path}` is a range, and the searcher `single` trains one value of it, drawn at random",
                document.at(parameter.key),
                help="write the value that is meant, or search: `random` with `max_trials`, `grid`, `adaptive_asha`",
            )
