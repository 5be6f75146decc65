"""Judges the dropout rates of the modules that ran."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.wiring import Wiring

MOST = 0.8


def check(seen: Wiring, *, share: float = MOST) -> Verdict:
    if not seen.dropouts:
        return Verdict(Outcome.SKIP, reason="no dropout module ran")
    findings = tuple(
        Finding(
            f"`{name}` drops {100 * rate:g} % of its input: "
            + ("nothing gets through" if rate >= 1 else f"what is left is multiplied by {1 / (1 - rate):.3g}"),
            Location(symbol=name.partition(" ")[0]),
            help="0.1 to 0.5 is usual; p is the share that is dropped, not the share that is kept",
            numbers={"p": rate},
        )
        for name, rate in seen.dropouts
        if rate > share
    )
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=len(seen.dropouts))
    rates = ", ".join(f"{rate:g}" for rate in sorted({rate for _, rate in seen.dropouts}))
    return Verdict(
        Outcome.PASS, f"{plural(len(seen.dropouts), 'dropout module')} with p = {rates}", looked_at=len(seen.dropouts)
    )
