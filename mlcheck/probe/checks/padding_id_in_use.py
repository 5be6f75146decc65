"""Judges whether an embedding's padding index is kept for padding."""

from __future__ import annotations

import math
from statistics import median

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.probe.measure.data.embedded_ids import Categories, EmbeddedIds, Lookups

AMID = 0.2
ENDING = 0.1
FEW = 64
SEVERAL = 2
DEVIATIONS = 3.0


def check(seen: Lookups) -> Verdict:
    if findings := tuple(_category(one) for one in seen.categories if _is_one_of_them(one)):
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=seen.categories[0].rows)
    padded = [table for table in seen.tables if table.padding is not None and table.rows >= FEW]
    if not padded:
        return Verdict(Outcome.SKIP, reason="no embedding with a padding index is given enough sequences")
    findings = tuple(_fault(table) for table in padded if table.amid >= AMID and table.ending >= ENDING)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=padded[0].rows)
    told = (
        f"id {padded[0].padding} is between other ids in {100 * padded[0].amid:.2g} % of the rows of `{padded[0].name}`"
    )
    return Verdict(Outcome.PASS, told, looked_at=padded[0].rows)


def _is_one_of_them(seen: Categories) -> bool:
    """Whether the padding index comes up as often as the other ids do: what stands for "unknown" hardly does."""
    if seen.rows < FEW or len(seen.others) < SEVERAL:
        return False
    usual = median(seen.others)
    return abs(seen.padded - usual) <= min(DEVIATIONS * math.sqrt(usual), usual / 2)


def _category(seen: Categories) -> Finding:
    share = seen.padded / seen.rows
    return Finding(
        f"id {seen.padding} is the padding index of `{seen.name}`, which looks up one id a row and pads nothing: "
        f"{100 * share:.2g} % of the rows have it, as many as have any other of {len(seen.others) + 1} categories, and "
        "its embedding stays 0, never trained",
        Location(symbol=seen.name),
        help="leave padding_idx out, or count the categories from 1",
        numbers={"share": share},
    )


def _fault(table: EmbeddedIds) -> Finding:
    return Finding(
        f"id {table.padding} is the padding index of `{table.name}`, pads rows, and is between other ids in "
        f"{100 * table.amid:.2g} % of them too: it is a real symbol as well, and its embedding stays 0, never trained",
        Location(symbol=table.name),
        help="begin the vocabulary at 1, and keep the padding index for padding",
        numbers={"amid": table.amid, "ending": table.ending},
    )
