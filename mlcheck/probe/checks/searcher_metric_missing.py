"""Judges whether evaluation returns the metric that the experiment's searcher goes by."""

from __future__ import annotations

import difflib

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.names import listed
from mlcheck.probe.measure.validation.searched import Searched


def check(seen: Searched) -> Verdict:
    if seen.metric in seen.returned:
        told = f"evaluation returns `{seen.metric}`, which the searcher goes by"
        return Verdict(Outcome.PASS, told, looked_at=len(seen.returned))
    near = difflib.get_close_matches(seen.metric, seen.returned, n=1)
    hint = f"; did you mean `{near[0]}`?" if near else ""
    message = f"the searcher goes by `{seen.metric}`, and evaluation returns {listed(list(seen.returned))}{hint}"
    help_ = "name one of the metrics that are returned: the run ends at its first validation otherwise"
    return Verdict(Outcome.FAIL, message, findings=(Finding(message, seen.place, help=help_),), looked_at=1)
