"""Finds lengths in epochs without the number of records that an epoch has."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.experiment.dialect import OLD, dialect
from mlcheck.experiment.ranges import whole
from mlcheck.experiment.seen import Experiment

_LENGTHS = (("searcher", "max_length"), ("min_validation_period",), ("min_checkpoint_period",))


def check(experiment: Experiment) -> Iterator[Finding]:
    document = experiment.document
    if not experiment.name or dialect(document, experiment.version) != OLD or document.merges(document.root):
        return
    records = document.find("records_per_epoch")
    if records is not None and whole(records.value) != 0:
        return
    for keys in _LENGTHS:
        entry = document.find(*keys, "epochs")
        if entry is not None and whole(entry.value) != 0:
            yield Finding(
                f"`{keys[-1]}` counts epochs, and `records_per_epoch` does not say how long one is",
                document.at(entry.key_node),
                help="add `records_per_epoch`, the number of training samples, or count batches",
            )
            return
