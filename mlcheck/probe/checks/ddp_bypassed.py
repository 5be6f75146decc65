"""Judges whether training goes through the wrapper that averages the gradients."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.run import RankRun
from mlcheck.probe.measure.ranks.weights import BYPASSED, Wrapped, drift


def check(run: RankRun) -> Verdict:
    if not run.ranks[0].of(Wrapped):
        raise NotMeasured("no model is wrapped in DistributedDataParallel")
    found = drift(run)
    if found is not None and found.cause == BYPASSED:
        help_ = "call the wrapped model in training; its `.module` is for saving, loading and evaluation"
        finding = Finding(f"{found.told}: the ranks drift apart", found.place, help=help_)
        return Verdict(Outcome.FAIL, finding.message, findings=(finding,), looked_at=run.updates)
    if found is not None:
        raise NotMeasured(f"the ranks drift apart for another reason: {found.told}")
    return Verdict(Outcome.PASS, f"every one of {plural(run.updates, 'update')} was averaged", looked_at=run.updates)
