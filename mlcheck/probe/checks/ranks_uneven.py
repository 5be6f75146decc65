"""Judges whether every rank takes as many steps as the others."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.passes import JOINS, passes
from mlcheck.probe.measure.ranks.run import RankRun
from mlcheck.probe.measure.ranks.weights import Wrapped

_HELP = (
    "deal out as many samples to each rank (DistributedSampler pads, drop_last=True cuts), or train within "
    "`with Join([model]):` of torch.distributed.algorithms.join"
)


def check(run: RankRun) -> Verdict:
    if run.framework:
        raise NotMeasured(f"{run.framework} decides how many batches a rank takes")
    trained = [one for one in passes(run) if one.trains]
    counted = [one for one in trained if one.lengths]
    if not counted:
        raise NotMeasured("the ranks train without a loader whose length is known")
    uneven = next((one for one in counted if len(set(one.lengths)) > 1), None)
    if uneven is None:
        told = f"every rank trains on {plural(counted[0].lengths[0], 'batch')} an epoch"
        return Verdict(Outcome.PASS, told, looked_at=len(counted))
    told = ", ".join(f"rank {rank} has {length:,} batches" for rank, length in enumerate(uneven.lengths))
    if JOINS in run.ranks[0].notices:
        return Verdict(Outcome.PASS, f"{told} an epoch, and {JOINS}", looked_at=len(counted))
    if not run.ranks[0].of(Wrapped):
        raise NotMeasured(f"{told} an epoch, but no model is wrapped in DistributedDataParallel")
    message = f"{told} an epoch: at the end the others wait for a gradient that never comes"
    finding = Finding(message, uneven.place, help=_HELP)
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=len(counted))
