"""Judges whether a nonlinearity stands between linear layers."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding, Location
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.wiring import Wiring


def check(seen: Wiring) -> Verdict:
    if seen.linears < 2:
        return Verdict(Outcome.SKIP, reason="fewer than two linear layers ran")
    useless = [pair for pair in seen.pairs if pair.widths[1] >= min(pair.widths[0], pair.widths[2])]
    findings = tuple(
        Finding(
            f"`{pair.first}` ({pair.widths[0]} to {pair.widths[1]}) feeds `{pair.second}` ({pair.widths[1]} to "
            f"{pair.widths[2]}) with nothing between: together they are one linear layer",
            Location(symbol=pair.first),
            help="put an activation (ReLU, GELU) between them, or leave one out",
        )
        for pair in useless
    )
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=seen.linears)
    narrow = f"; {len(seen.pairs)} follow one another through a bottleneck" if seen.pairs else ""
    return Verdict(
        Outcome.PASS,
        f"no two of {plural(seen.linears, 'linear layer')} are joined without effect{narrow}",
        looked_at=seen.linears,
    )
