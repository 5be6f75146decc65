"""Judges whether an evaluation that is dealt out over the ranks comes together again."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.passes import passes, unreduced
from mlcheck.probe.measure.ranks.run import RankRun


def check(run: RankRun) -> Verdict:
    if run.framework:
        raise NotMeasured(f"{run.framework} puts the metrics of the ranks together")
    evaluated = [one for one in passes(run) if not one.trains and one.first.calls]
    if not evaluated:
        raise NotMeasured("the ranks do not evaluate over a loader")
    found = next(unreduced(run), None)
    if found is None:
        told = f"{plural(len(evaluated), 'evaluation')} over a loader, of the whole data or put together afterwards"
        return Verdict(Outcome.PASS, told, looked_at=len(evaluated))
    share = len(set(found.first.plan)) / max(1, found.samples)
    message = f"each rank evaluates {share:.0%} of the samples, and nothing puts the results together"
    help_ = "all_reduce the sums and counts, or evaluate everything on rank 0"
    finding = Finding(message, found.place, help=help_)
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=len(evaluated))
