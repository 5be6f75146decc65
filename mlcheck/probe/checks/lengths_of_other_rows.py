"""Judges whether lengths and masks are those of the rows they stand beside."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.padded_rows import PaddedRows, Told
from mlcheck.probe.measure.names import listed, part_of


def check(seen: PaddedRows) -> Verdict:
    if seen.exchanged:
        findings = tuple(_fault(told, seen.batches) for told in seen.exchanged)
        return Verdict(Outcome.FAIL, findings[0].message, findings=findings, looked_at=seen.batches)
    names = listed([part_of("batch", name) for name in seen.agreeing])
    return Verdict(Outcome.PASS, f"{names}: every row is told its own length", looked_at=seen.batches)


def _fault(told: Told, batches: int) -> Finding:
    lengths, sequence = part_of("batch", told.name), part_of("batch", told.sequence)
    return Finding(
        f"`{lengths}` tells the lengths of `{sequence}` in another order: row {told.row} is {told.found} long and told "
        f"to be {told.told} ({told.rows} of {told.of} rows, in each of {batches} batches)",
        Location(symbol=lengths),
        help="sort lengths and sequences by one and the same order, or neither (enforce_sorted=False)",
        numbers={"rows": float(told.rows), "of": float(told.of)},
    )
