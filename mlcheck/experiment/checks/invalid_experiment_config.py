"""Finds what the cluster refuses: unknown keys, values of the wrong kind or out of range, keys that are missing."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.experiment.seen import Experiment


def check(experiment: Experiment) -> Iterator[Finding]:
    for problem in experiment.problems():
        yield Finding(problem.message, experiment.document.at(problem.node), help=problem.help)
