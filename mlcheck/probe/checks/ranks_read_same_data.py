"""Judges whether two ranks of a run share the data between them."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.restarts import Ranks

_SHARD = (
    "deal the samples out by rank: a DistributedSampler, determined.pytorch.DataLoader, or every n-th sample of a "
    "stream, by rank and number of ranks"
)
_SPLIT = "split with a generator of a fixed seed, the same on every rank"


def check(seen: Ranks) -> Verdict:
    findings = []
    if seen.same == seen.compared:
        told = f"on two ranks both would read the same batches ({seen.same} of {seen.compared} are equal)"
        findings.append(Finding(f"{told}: two devices do the work of one", seen.place, help=_SHARD))
    if seen.validated_elsewhere:
        told = f"the ranks split the data differently: {seen.validated_elsewhere:,} samples that one rank trains on"
        findings.append(Finding(f"{told} are validated by another", seen.place, help=_SPLIT))
    if findings:
        outcome = Outcome.FAIL if seen.slots > 1 else Outcome.WARN
        return Verdict(outcome, findings[0].message, findings=tuple(findings), looked_at=seen.compared)
    if seen.same:
        reason = f"{seen.same} of the first {seen.compared} batches of two ranks are the same"
        return Verdict(Outcome.INCONCLUSIVE, reason=reason, looked_at=seen.compared)
    return Verdict(
        Outcome.PASS, f"the first {seen.compared} batches of two ranks are different", looked_at=seen.compared
    )
