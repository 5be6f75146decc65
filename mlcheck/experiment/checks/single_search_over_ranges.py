"""Finds ranges that a `single` searcher does not search, and lists that a `grid` does not go through."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from mlcheck.core.finding import Finding
from mlcheck.experiment.ranges import parameters
from mlcheck.experiment.seen import Experiment


def check(experiment: Experiment) -> Iterator[Finding]:
    document = experiment.document
    searcher, given = document.text("searcher", "name"), parameters(document)
    searched = [parameter for parameter in given if parameter.is_searched()]
    if searcher == "single":
        for parameter in searched:
            yield Finding(
                f"`{parameter.path}` is a range, and the searcher `single` trains one value of it, drawn at random",
                document.at(parameter.key),
                help="write the value that is meant, or search: `random` with `max_trials`, `grid`, `adaptive_asha`",
            )
    elif searcher == "grid" and not searched:
        for parameter in given:
            if isinstance(parameter.node, yaml.SequenceNode) and len(parameter.node.value) > 1:
                yield Finding(
                    f"`{parameter.path}` is a list, which is one value: the searcher `grid` has nothing to go through",
                    document.at(parameter.key),
                    help="write `{type: categorical, vals: [...]}` to try each, or name the searcher `single`",
                )
