"""Judges whether the ranks augment their samples with random numbers of their own."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.passes import passes
from mlcheck.probe.measure.ranks.run import RankRun


def check(run: RankRun) -> Verdict:
    if run.framework:
        raise NotMeasured(f"{run.framework} seeds the ranks")
    random = [one for one in passes(run) if one.trains and any(each.varies for each in one.passes)]
    if not random:
        raise NotMeasured("no training sample is changed at random")
    same = next((one for one in random if len({each.noise for each in one.passes}) == 1), None)
    if same is None:
        return Verdict(Outcome.PASS, "each rank augments with random numbers of its own", looked_at=len(random))
    message = "all ranks begin the epoch with the same random numbers: their samples are augmented alike"
    finding = Finding(message, same.place, help="seed with `seed + rank`, after the model is built")
    return Verdict(Outcome.WARN, message, findings=(finding,), looked_at=len(random))
