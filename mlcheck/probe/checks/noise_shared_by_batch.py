"""Judges whether the samples of a batch get noise of their own."""

from __future__ import annotations

from mlcheck.core.check import Verdict
from mlcheck.core.finding import Finding
from mlcheck.core.outcome import Outcome
from mlcheck.core.plural import plural
from mlcheck.probe.measure.model.shared_noise import Shared, SharedNoise


def check(seen: SharedNoise) -> Verdict:
    findings = tuple(_finding(one) for one in seen.shared)
    if findings:
        return Verdict(Outcome.WARN, findings[0].message, findings=findings, looked_at=seen.joined)
    told = f"each sample has normal numbers of its own where they meet ({plural(seen.joined, 'operation')})"
    return Verdict(Outcome.PASS, told, looked_at=seen.joined)


def _finding(one: Shared) -> Finding:
    message = (
        f"all {one.values[0]} samples of a batch get the same noise: normal numbers of shape {one.drawn} are drawn "
        f"once, and `{one.operation}` with {one.values} repeats them for every sample"
    )
    return Finding(message, one.place, help="draw as many as there are: torch.randn_like(values)")
