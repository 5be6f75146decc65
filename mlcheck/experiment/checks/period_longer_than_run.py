"""Finds a validation or checkpoint period that never ends within the run."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from mlcheck.core.finding import Finding
from mlcheck.experiment.document import Document, Entry
from mlcheck.experiment.ranges import parameters, whole
from mlcheck.experiment.seen import Experiment

_WHAT = {"min_validation_period": "validated", "min_checkpoint_period": "saved"}


def check(experiment: Experiment) -> Iterator[Finding]:
    document = experiment.document
    run = _length(document, "searcher", "max_length")
    if run is None:
        return
    for name, what in _WHAT.items():
        period = _length(document, name)
        if period is None:
            continue
        rate = _records_in(document, period[1]), _records_in(document, run[1])
        if period[1] == run[1]:
            rate = Fraction(1), Fraction(1)
        if rate[0] is None or rate[1] is None or period[0] * rate[0] <= run[0] * rate[1]:
            continue
        yield Finding(
            f"a run of {run[0]} {run[1]} is {what} every {period[0]} {period[1]}: not once before its end",
            document.at(period[2].value),
            help=f"make `{name}` shorter than `max_length`",
        )


def _length(document: Document, *keys: str) -> tuple[int, str, Entry] | None:
    for unit in ("batches", "records", "epochs"):
        entry = document.find(*keys, unit)
        value = whole(entry.value) if entry else None
        if entry and value:
            return value, unit, entry
    return None


def _records_in(document: Document, unit: str) -> Fraction | None:
    """How many records one batch or epoch is; None where that is not written."""
    if unit == "records":
        return Fraction(1)
    if unit == "epochs":
        entry = document.find("records_per_epoch")
        value = whole(entry.value) if entry else None
        return Fraction(value) if value else None
    sizes = [choice for one in parameters(document) if one.path == "global_batch_size" for choice in one.choices()]
    size = whole(sizes[0]) if len(sizes) == 1 else None
    return Fraction(size) if size else None
