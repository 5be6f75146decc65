"""Judges whether the training data holds NaN or infinite values."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.batches import Batches


def check(seen: Batches) -> Verdict:
    scope = "the whole training data" if seen.whole_pass else f"the first {seen.batches} batches"
    if not seen.non_finite:
        return Verdict(
            Outcome.PASS, f"all values are finite in {scope} ({seen.samples:,} samples)", looked_at=seen.samples
        )
    findings = []
    for bad in seen.non_finite:
        column = f", feature [{bad.column}]" if bad.column else ""
        message = (
            f"`{bad.name}` holds {bad.values} NaN or infinite values in {bad.batches} of {seen.batches} batches; "
            f"the first is {bad.value} in batch {bad.batch}, row {bad.row}{column}"
        )
        findings.append(Finding(message, numbers={"values": float(bad.values), "batches": float(bad.batches)}))
    return Verdict(Outcome.FAIL, findings[0].message, findings=tuple(findings), looked_at=seen.samples)
