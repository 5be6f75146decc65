"""Finds a searcher's metric that the evaluation does not return."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from mlcheck.core.finding import Finding, Location
from mlcheck.experiment.seen import Experiment


def check(experiment: Experiment) -> Iterator[Finding]:
    metric = experiment.document.find("searcher", "metric")
    name = experiment.document.text("searcher", "metric")
    returned = experiment.code.metrics() if experiment.code and name else None
    if metric is None or returned is None or experiment.code is None:
        return
    keys, function = returned
    if name in keys:
        return
    near = difflib.get_close_matches(name, keys, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    shown = ", ".join(f"`{key}`" for key in sorted(keys)) or "nothing"
    yield Finding(
        f"the searcher looks at `{name}`, and {function.name} returns {shown}{hint}",
        experiment.document.at(metric.value),
        help="name one of the metrics that are returned: the run ends at its first validation otherwise",
        related=(Location(experiment.code.module.path, function.lineno),),
    )
