"""Finds a key that is written twice in one mapping: the first value is lost without a word."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.experiment.seen import Experiment


def check(experiment: Experiment) -> Iterator[Finding]:
    document = experiment.document
    for mapping in document.mappings():
        first: dict[str, int] = {}
        for entry in document.entries(mapping):
            line = document.at(entry.key_node).line
            if entry.key in first:
                yield Finding(
                    f"`{entry.key}` is written twice: this value replaces that of line {first[entry.key]}",
                    document.at(entry.key_node),
                    help="keep one of the two",
                )
            first.setdefault(entry.key, line)
