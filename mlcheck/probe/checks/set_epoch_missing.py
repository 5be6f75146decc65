"""Judges whether a sampler that shuffles over ranks gives another order in the next epoch."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.drive import inconclusive
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.passes import passes, repeated_epochs
from mlcheck.probe.measure.ranks.run import RankRun


def check(run: RankRun) -> Verdict:
    shuffled = [one for one in passes(run) if one.trains and one.first.shuffles]
    if not shuffled:
        raise NotMeasured("no sampler shuffles over the ranks")
    if len({one.first.loader for one in shuffled}) == len(shuffled):
        raise inconclusive("no second epoch was seen: give the program arguments for two")
    found = next(repeated_epochs(run), None)
    if found is None:
        return Verdict(Outcome.PASS, "the second epoch brings the samples in another order", looked_at=len(shuffled))
    before, now = found
    count = len(now.first.plan or now.first.indices)
    message = f"epochs {before.first.epoch + 1} and {now.first.epoch + 1} bring the same {count:,} samples in one order"
    finding = Finding(message, now.place, help="call `sampler.set_epoch(epoch)` at the beginning of every epoch")
    return Verdict(Outcome.FAIL, message, findings=(finding,), looked_at=len(shuffled))
