"""Finds a global batch size that the slots of a trial cannot share evenly: it is rounded down without an error."""

from __future__ import annotations

from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.experiment.ranges import parameters, whole
from mlcheck.experiment.seen import Experiment


def check(experiment: Experiment) -> Iterator[Finding]:
    document = experiment.document
    entry = document.find("resources", "slots_per_trial")
    slots = whole(entry.value) if entry else None
    if slots is None or slots < 2 or not experiment.name:
        return
    sizes = [one for one in parameters(document) if one.path == "global_batch_size"]
    for node in (choice for one in sizes for choice in one.choices()):
        size = whole(node)
        if size is not None and size < slots:
            told = f"the global batch size {size} is less than the {slots} slots of a trial: none of them can start"
            help_ = f"write at least {slots}"
        elif size is not None and size % slots:
            told = f"the global batch size {size} cannot be shared by {slots} slots: it becomes {size - size % slots}"
            help_ = f"write {size - size % slots} or {size - size % slots + slots}"
        else:
            continue
        yield Finding(told, document.at(node), help=help_)
