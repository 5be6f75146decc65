"""Judges whether the ranks of a run share the data between them."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.measurement import NotMeasured
from mlcheck.probe.measure.ranks.passes import passes
from mlcheck.probe.measure.ranks.run import RankRun
from mlcheck.probe.measure.training.restarts import Ranks

_SHARD = (
    "deal the samples out by rank: a DistributedSampler, determined.pytorch.DataLoader, or every n-th sample of a "
    "stream, by rank and number of ranks"
)
_SPLIT = "split with a generator of a fixed seed, the same on every rank"


def check(seen: Ranks | None, run: RankRun | None) -> Verdict:
    if seen is not None:
        return _constructed(seen)
    if run is None:
        raise NotMeasured("the program was not run on several ranks, or deals out its data in a way of its own")
    return _really_run(run)


def _constructed(seen: Ranks) -> Verdict:
    """Of two ranks that were only set up."""
    findings = []
    if seen.alike:
        reason = "all samples of a rank are alike, so those of two ranks cannot be told apart"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.compared)
    if seen.same == seen.compared:
        told = f"on two ranks both would read the same batches ({seen.same} of {seen.compared} are equal)"
        when = ", which matters as soon as it gets more than its one slot" if seen.slots == 1 else ""
        findings.append(Finding(f"{told}: two devices do the work of one{when}", seen.place, help=_SHARD))
    if seen.validated_elsewhere:
        told = f"the ranks split the data differently: {seen.validated_elsewhere:,} samples that one rank trains on"
        findings.append(Finding(f"{told} are validated by another", seen.place, help=_SPLIT))
    if seen.resplit:
        told = f"the ranks split the data differently: at least {seen.resplit:,} validation samples of one rank"
        findings.append(
            Finding(f"{told} are not among another's, though both hold the same data", seen.place, help=_SPLIT)
        )
    if findings:
        outcome = Outcome.FAIL if seen.slots > 1 else Outcome.WARN
        return Verdict(outcome, findings[0].message, findings=tuple(findings), looked_at=seen.compared)
    if seen.same:
        reason = f"{seen.same} of the first {seen.compared} batches of two ranks are the same"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.compared)
    return Verdict(
        Outcome.PASS, f"of two ranks, the first {plural(seen.compared, 'batch')} differ", looked_at=seen.compared
    )


def _really_run(run: RankRun) -> Verdict:
    """Of the passes that all ranks made while they trained."""
    if run.framework:
        raise NotMeasured(f"{run.framework} deals out the data")
    trained, world = [one for one in passes(run) if one.trains], len(run.ranks)
    if not trained:
        raise NotMeasured("the ranks train without a DataLoader, so what they read cannot be compared")
    looked_at = len(trained)
    for one in trained:
        same, of = one.repeated
        if of > 1 and same == of:
            message = f"all {world} ranks train on the same batches ({same} of {of} are equal): they do the work of one"
            return _failed(message, one.place, looked_at)
        if one.whole:
            message = f"each of {world} ranks goes through all {one.samples:,} samples: an epoch is {world} epochs"
            return _failed(message, one.place, looked_at, Outcome.WARN)
        if one.doubled:
            message = (
                f"{plural(one.doubled, 'sample')} of an epoch {'is' if one.doubled == 1 else 'are'} read "
                "by more than one rank"
            )
            return _failed(message, one.place, looked_at)
        if one.missed:
            return _failed(f"{one.missed:,} of {one.samples:,} samples are read by no rank", one.place, looked_at)
    return Verdict(Outcome.PASS, f"{world} ranks train on different samples", looked_at=looked_at)


def _failed(message: str, place: Location, looked_at: int, outcome: Outcome = Outcome.FAIL) -> Verdict:
    return Verdict(outcome, message, findings=(Finding(message, place, help=_SHARD),), looked_at=looked_at)
