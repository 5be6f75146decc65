"""Finds `log` ranges whose bounds are the values that are meant, and not their exponents."""

from __future__ import annotations

import math
from collections.abc import Iterator

from mlcheck.core.finding import Finding
from mlcheck.experiment.document import merged_entries
from mlcheck.experiment.ranges import parameters, written
from mlcheck.experiment.seen import Experiment

_APART = 10.0  # as values; as exponents between 0 and 1 these are all but the same


def check(experiment: Experiment) -> Iterator[Finding]:
    document = experiment.document
    for parameter in parameters(document):
        entries = {entry.key: entry.value for entry in merged_entries(parameter.node)}
        base, low, high = (written(entries.get(name)) for name in ("base", "minval", "maxval"))
        if parameter.kind != "log" or base is None or low is None or high is None:
            continue
        if base > 1 and low > 0 and high < 1 and low * _APART <= high:
            exponents = " to ".join(f"{math.log(bound, base):.3g}" for bound in (low, high))
            yield Finding(
                f"`{parameter.path}` is drawn between {base**low:.4g} and {base**high:.4g}: the bounds of `log` are "
                f"exponents of {base:g}",
                document.at(entries["minval"]),
                help=f"for {low:g} to {high:g}, write the exponents {exponents}",
            )
