"""Finds a searcher that keeps the worst: an accuracy to be made small, a loss to be made large."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.core.metric_names import best
from mlcheck.experiment.seen import Experiment


def check(experiment: Experiment) -> Iterator[Finding]:
    document = experiment.document
    metric = document.find("searcher", "metric")
    written = document.find("searcher", "smaller_is_better")
    small = document.text("searcher", "smaller_is_better").lower()
    wanted = best(document.text("searcher", "metric"))
    if metric is None or not wanted:
        return
    if wanted == "largest" and small in {"", "true"}:
        how = "smaller_is_better is true" if written else "smaller_is_better is true unless it is given"
        wrong, right = "smallest", "false"
    elif wanted == "smallest" and small == "false":
        how, wrong, right = "smaller_is_better is false", "largest", "true"
    else:
        return
    node = written.value if written else metric.value
    yield Finding(
        f"the search keeps the {wrong} `{document.text('searcher', 'metric')}`: {how}",
        document.at(node),
        help=f"write `smaller_is_better: {right}` under `searcher`",
    )
